// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command benchgoals compares what `go test -bench` prints with goals.
//
//	go test -bench . … | benchgoals FILE
//
// prints its input and, after it, each goal of FILE with what was measured. It never
// fails over a goal: how fast a machine is changes from hour to hour.
//
// A line of FILE is a goal; # begins a comment:
//
//	BENCHMARK UNIT <= VALUE
//	BENCHMARK UNIT / UNIT >= VALUE
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go test -bench . … | benchgoals FILE")
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench: error:", err)
		os.Exit(1)
	}
}

func run(file string, in io.Reader, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	goals, err := parseGoals(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	results, err := measure(io.TeeReader(in, out))
	if err != nil {
		return err
	}
	return compare(goals, results, out)
}
