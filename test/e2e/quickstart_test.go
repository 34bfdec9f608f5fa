// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// pageStep is a command of a page and the output that the page shows.
type pageStep struct {
	command string
	output  []string
}

// stepsOf reads the console blocks of a page: a line that begins with "$ " is a
// command, the lines below it are its output.
func stepsOf(page string) []pageStep {
	var steps []pageStep
	for _, block := range regexp.MustCompile("(?s)\n```console\n(.*?)\n```").FindAllStringSubmatch(page, -1) {
		for line := range strings.SplitSeq(block[1], "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, pageStep{command: command})
			} else if len(steps) > 0 {
				last := &steps[len(steps)-1]
				last.output = append(last.output, line)
			}
		}
	}
	return steps
}

// pattern matches the output: … is any text, also of several lines; blanks are as
// wide as they like.
func (s pageStep) pattern() *regexp.Regexp {
	text := regexp.QuoteMeta(strings.Join(s.output, "\n"))
	text = regexp.MustCompile(`\s*…\s*`).ReplaceAllString(text, `(?s:.*)`)
	text = regexp.MustCompile(` +`).ReplaceAllString(text, ` +`)
	return regexp.MustCompile(`^\s*` + text + `\s*$`)
}

// TestQuickstart runs docs/user/quickstart.md line by line.
func TestQuickstart(t *testing.T) {
	c := up(t)
	root := filepath.Dir(testenv.Bin())
	page, err := os.ReadFile(filepath.Join(root, "docs", "user", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	// The page's programs, for the cluster of the tests.
	bin := t.TempDir()
	for program, arguments := range map[string]string{
		"kubectl": `kubectl --name ` + name + ` --data-dir ` + c.dir + ` "$@"`,
		"mullion": `"$@"`,
	} {
		script := "#!/bin/bash\n"
		if program == "mullion" {
			script += `case "$1" in status | url) set -- "$1" --name ` + name + ` --data-dir ` + c.dir +
				` "${@:2}" ;; esac` + "\n"
		}
		script += "exec " + testenv.Bin("mullion") + " " + arguments + "\n"
		if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	steps := stepsOf(string(page))
	if len(steps) < 10 {
		t.Fatalf("only %d commands: %v", len(steps), steps)
	}
	for _, s := range steps {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-c", s.command)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		cancel()
		if want := s.pattern(); !want.Match(out) {
			t.Fatalf("$ %s\n%s\n%v; the page shows\n%s", s.command, out, exitOf(err), strings.Join(s.output, "\n"))
		}
	}
}

func exitOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return fmt.Sprint(err)
}
