// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package syntax parses the text of a PowerShell script into a tree. It doesn't
// depend on execution and imports only the standard library.
//
// PowerShell's tokens depend on their context: `a-b` is one word after a
// command's name and a subtraction in an expression. The lexer therefore returns
// one token at a time, in the parser's current mode, at a byte offset, and is
// stateless; the parser backs up by setting its offset.
//
// Fidelity: subset - classes, enums, workflows, configurations, data sections
// and dynamic parameters are refused by name (docs/fidelity/pwsh.md).
//
// Sources, read 2026-11: the Windows PowerShell Language Specification,
// chapters 2 (lexical structure) and 8 (statements),
// https://learn.microsoft.com/powershell/scripting/lang-spec/chapter-02 and
// chapter-08; about_Parsing, about_Operator_Precedence, about_Quoting_Rules and
// about_Redirection of https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/.
package syntax
