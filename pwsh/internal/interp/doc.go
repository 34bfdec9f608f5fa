// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package interp runs PowerShell scripts.
//
// A Runner walks the tree of package syntax with the values of package value. It
// reaches the machine only through its host.Handlers (programs, files, network,
// environment, registry, clock, standard streams), so that it can be embedded and
// tested. Its Library holds the commands and .NET types.
//
// Pipelines stream: each stage passes an object to the next by a function call,
// on one goroutine. A stage that needs no more input (Select-Object -First)
// unwinds to the pipeline. Programs run concurrently; their output is read line
// by line.
//
// Errors follow PowerShell's three kinds: a non-terminating error is written
// to the error stream; a statement-terminating one ends its statement, or goes
// to the innermost try; a script-terminating one (throw, -ErrorAction Stop)
// unwinds until something catches it.
//
// A construct outside of the subset is an error that names it and refers to
// docs/fidelity/pwsh.md; the interpreter never ignores one silently. No script can
// panic the program: the depth of calls, and the size of an operator's result, are
// bounded.
//
// A Runner is not safe for concurrent use.
//
// Sources, read 2026-11: the Windows PowerShell Language Specification,
// https://learn.microsoft.com/powershell/scripting/lang-spec/chapter-01, and the
// about_ pages named beside the code,
// https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/.
package interp
