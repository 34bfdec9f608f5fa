// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cmdlet implements the commands of the PowerShell subset, in one file
// for each noun. table lists them.
//
// To add one: write a function that returns its *interp.Cmdlet in the file of
// its noun, put it into the table of that file, add rows to an archive of
// testdata/rows, and run this package's tests with -update, which rewrites the
// list in docs/fidelity/pwsh.md.
//
// Source: the reference of each cmdlet,
// https://learn.microsoft.com/powershell/module/, read 2026-11.
package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
	"github.com/mullion-k8s/mullion/pwsh/internal/view"
)

// table lists every cmdlet, by noun.
func table() []*interp.Cmdlet {
	var all []*interp.Cmdlet
	for _, f := range []func() []*interp.Cmdlet{
		aclCmdlets, aliasCmdlets, childItemCmdlets, commandCmdlets, computerCmdlets, contentCmdlets, csvCmdlets,
		dateCmdlets, errorCmdlets,
		expressionCmdlets, formatCmdlets, hashCmdlets, historyCmdlets, hostCmdlets, itemCmdlets, itemPropertyCmdlets,
		jsonCmdlets, locationCmdlets, memberCmdlets, moduleCmdlets, netCmdlets, dnsCmdlets, connectionCmdlets,
		objectCmdlets, outputCmdlets, pathCmdlets, processCmdlets, randomCmdlets, serviceCmdlets, sleepCmdlets,
		stringCmdlets, systemCmdlets, variableCmdlets, webCmdlets, routeCmdlets, ipInterfaceCmdlets,
	} {
		all = append(all, f()...)
	}
	return all
}

// Library returns everything that a session offers: commands, types and the
// console's layout.
func Library() interp.Library {
	return interp.Library{Cmdlets: table(), Classes: dotnet.Table(), Display: view.New}
}

// show sets the columns in which the object is shown.
func show(o *value.Object, columns ...string) *value.Object {
	o.Show = columns
	return o
}

// asList is show for types whose view is a list.
func asList(o *value.Object, columns ...string) *value.Object {
	o.Show, o.List = columns, true
	return o
}

func i32(n int) any { return int32(n) }

func badArgument(param, format string, args ...any) error {
	return interp.Failf("System.ArgumentException", "Argument", "InvalidArgument", param, format, args...)
}

func matches(patterns []string, s string) bool {
	for _, p := range patterns {
		if value.Like(s, p, false) {
			return true
		}
	}
	return len(patterns) == 0
}

// files returns the file system, or an empty one.
func files(c *interp.Invocation) host.FileSystem {
	if f := c.R.Handlers().Files; f != nil {
		return f
	}
	return noFiles{}
}

func lower(s string) string { return strings.ToLower(s) }
