// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command testlog reads the output of `go test -json`, so that no test is skipped
// unnoticed.
//
//	go test -json … | testlog show FILE
//
// prints the output of go test without -json, and adds the skipped tests to FILE.
//
//	testlog skipped [-partial] EXPECTED FILE
//
// lists the tests in FILE with their reasons. Without -partial it fails unless
// they are the ones that EXPECTED lists.
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
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go test -json … | testlog show FILE\n"+
			"       testlog skipped [-partial] EXPECTED FILE")
	}
	flag.Parse()
	var err error
	switch args := flag.Args(); {
	case len(args) == 2 && args[0] == "show":
		err = showTo(args[1], os.Stdin, os.Stdout)
	case len(args) > 0 && args[0] == "skipped":
		err = listSkipped(args[1:], os.Stdout)
	default:
		err = flag.ErrHelp
	}
	if errors.Is(err, flag.ErrHelp) {
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test: error:", err)
		os.Exit(1)
	}
}

// showTo shows events and adds the skipped tests to a file.
func showTo(file string, events io.Reader, out io.Writer) (err error) {
	// Groups of tests run concurrently and append to one file.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("record skipped tests: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	skips, err := show(events, out)
	if err != nil {
		return err
	}
	for _, s := range skips {
		if err := s.write(f); err != nil {
			return err
		}
	}
	return nil
}

func listSkipped(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("skipped", flag.ContinueOnError)
	partial := flags.Bool("partial", false, "accept that tests were skipped")
	if err := flags.Parse(args); err != nil || flags.NArg() != 2 {
		return flag.ErrHelp
	}
	list, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return fmt.Errorf("read the expected skips: %w", err)
	}
	want, err := parseExpected(list)
	if err != nil {
		return fmt.Errorf("%s: %w", flags.Arg(0), err)
	}
	record, err := os.ReadFile(flags.Arg(1))
	if err != nil {
		return fmt.Errorf("read the skipped tests: %w", err)
	}
	got, err := parseSkips(record)
	if err != nil {
		return fmt.Errorf("%s: %w", flags.Arg(1), err)
	}
	if err := printSkips(out, got); err != nil {
		return err
	}
	if *partial {
		return nil
	}
	return compare(flags.Arg(0), want, got)
}
