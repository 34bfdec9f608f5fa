// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command skipped lists the tests that were skipped, so that none is skipped unnoticed.
//
//	skipped [-partial] EXPECTED FILE...
//
// reads files that `go test -json` wrote. Without -partial it fails unless the skipped tests
// are the ones that the file EXPECTED lists.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: skipped [-partial] EXPECTED FILE...")
	}
	partial := flag.Bool("partial", false, "accept that tests were skipped")
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := list(os.Stdout, flag.Arg(0), flag.Args()[1:], *partial); err != nil {
		fmt.Fprintln(os.Stderr, "test: error:", err)
		os.Exit(1)
	}
}

// list prints the skipped tests of the files and compares them with the expected ones.
func list(out io.Writer, expected string, files []string, partial bool) error {
	text, err := os.ReadFile(expected)
	if err != nil {
		return fmt.Errorf("read the expected skips: %w", err)
	}
	want, err := parseExpected(text)
	if err != nil {
		return fmt.Errorf("%s: %w", expected, err)
	}
	var got []skip
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("read the results: %w", err)
		}
		skips, err := read(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read the results in %s: %w", file, err)
		}
		got = append(got, skips...)
	}
	if err := printSkips(out, got); err != nil {
		return err
	}
	if partial {
		return nil
	}
	return compare(expected, want, got)
}
