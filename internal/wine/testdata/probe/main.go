// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command probe is cross-compiled by the tests of package wine and run under
// Wine. Its argument names a check; it prints errors and exits with 1. Each check
// follows the documentation of Windows; it has not run there yet.
package main

import (
	"fmt"
	"os"
	"sort"
)

func main() {
	checks := map[string]func(t *probe){
		"links":     links,
		"removeall": removeAll,
		"messages":  messages,
		"unix":      unixSockets,
		"unixfiles": unixFiles,
		"udp":       udp,
		"version":   version,
		"exit":      exit,
		"wait":      waitForShutdown,
		"sleep":     sleep,
		"returns":   returns,
		"services":  services,
		"stacks":    stacks,
		"queue":     queue,
		"arguments": arguments,
		"service":   service,
		"escape":    escape,
		"drive":     drive,
		"console":   console,
		"security":  security,
		"panic":     panics,
		"pairs":     pairs,
	}
	if len(os.Args) < 2 || checks[os.Args[1]] == nil {
		var names []string
		for n := range checks {
			names = append(names, n)
		}
		sort.Strings(names)
		fmt.Println("usage: probe CHECK; checks:", names)
		os.Exit(2)
	}
	t := &probe{}
	checks[os.Args[1]](t)
	if t.failed {
		os.Exit(1)
	}
	fmt.Println("ok")
}

// probe is the little of testing.T that is needed here.
type probe struct{ failed bool }

func (t *probe) errorf(format string, args ...any) {
	t.failed = true
	fmt.Printf(format+"\n", args...)
}

func (t *probe) must(err error) {
	if err != nil {
		fmt.Println("fatal:", err)
		os.Exit(1)
	}
}
