// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command benchgoals compares the output of `go test -bench` with goals.
//
//	go test -bench . … | benchgoals FILE
//
// prints its input and, after it, each goal of FILE with the measured value. It fails if a
// goal was not measured, or is missed by more than its tolerance: how fast a machine is
// changes from hour to hour. The tolerance is 10 % of the value unless the goal has another.
//
// A line of FILE is a goal; # begins a comment:
//
//	BENCHMARK UNIT <= VALUE
//	BENCHMARK UNIT / UNIT >= VALUE within 20%
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
