// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestReference keeps docs/reference/cli.md true to the code; -update rewrites
// it.
func TestReference(t *testing.T) {
	t.Setenv("MULLION_DATA", "")
	var b strings.Builder
	b.WriteString("# Commands\n\nGenerated from the code by `go test ./cmd/mullion -update`; do not edit.\n")
	root := cli.Root(cli.Streams{}, commands())
	for _, c := range root.Commands() {
		if !c.Hidden && !standard(c) {
			describe(&b, c)
		}
	}
	t.Chdir(testenv.Repo("docs", "reference"))
	if err := os.MkdirAll("testdata", 0o755); err == nil {
		defer os.Remove("testdata")
	}
	testenv.Golden(t, filepath.Join("..", "cli.md"), []byte(b.String()))
}

func describe(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", c.UseLine(), firstNonEmpty(c.Long, c.Short))
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.Example)
	}
	if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(b, "\n```\n%s```\n", flags)
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			describe(b, sub)
		}
	}
}

func firstNonEmpty(s ...string) string {
	for _, x := range s {
		if x != "" {
			return x
		}
	}
	return ""
}

// TestEveryCommandHasAnExample: help without an example is half a help.
func TestEveryCommandHasAnExample(t *testing.T) {
	for c := range walk(cli.Root(cli.Streams{}, commands())) {
		hidden := c.Hidden || c.HasParent() && c.Parent().Hidden
		if !hidden && !c.HasSubCommands() && c.Example == "" && !standard(c) {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
}

// walk yields a command and everything below it.
func walk(c *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		if !yield(c) {
			return
		}
		for _, sub := range c.Commands() {
			for c := range walk(sub) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// standard reports whether Cobra supplies the command.
func standard(c *cobra.Command) bool {
	return c.Name() == "help" || c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion"
}
