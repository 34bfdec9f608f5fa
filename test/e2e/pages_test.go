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

// reader follows pages of the documentation in a directory that looks like a clone of the repository. The programs
// there use the tests' cluster and a namespace of the test.
type reader struct{ dir string }

// newReader makes the directory.
func newReader(t *testing.T, c *shared, ns string) reader {
	t.Helper()
	r := reader{t.TempDir()}
	if err := os.Mkdir(filepath.Join(r.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testenv.Repo("examples"), filepath.Join(r.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	mullion, cluster := testenv.Bin("mullion"), " --name "+c.name+" --data-dir "+c.dir
	for program, script := range map[string]string{
		"kubectl": `exec "$(dirname "$0")"/mullion kubectl "$@"`,
		"mullion": `case "$1" in
kubectl | url) exec ` + mullion + ` "$1"` + cluster + ` -n ` + ns + ` "${@:2}" ;;
status | load) exec ` + mullion + ` "$1"` + cluster + ` "${@:2}" ;;
esac
exec ` + mullion + ` "$@"`,
	} {
		script = "#!/bin/bash\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(r.dir, "bin", program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// run runs a command of a page, and returns both outputs.
func (r reader) run(t *testing.T, command string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// follow runs a command and compares its output with that of the page.
func (r reader) follow(t *testing.T, s pageStep) {
	t.Helper()
	if err := r.differs(t, s); err != nil {
		t.Fatal(err)
	}
}

// differs runs a command, and returns an error unless its output is that of the page.
func (r reader) differs(t *testing.T, s pageStep) error {
	t.Helper()
	out, err := r.run(t, s.command)
	if s.pattern().MatchString(out) {
		return nil
	}
	return fmt.Errorf("$ %s\n%s\n%s; the page shows\n%s", s.command, out, exitOf(err), strings.Join(s.output, "\n"))
}

func exitOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return fmt.Sprint(err)
}

// blocksOf returns the lines of each code block of a page of the repository.
func blocksOf(t *testing.T, page string) (blocks [][]string) {
	t.Helper()
	content, err := os.ReadFile(testenv.Repo(page))
	if err != nil {
		t.Fatal(err)
	}
	within := false
	for line := range strings.Lines(string(content)) {
		switch {
		case strings.HasPrefix(line, "```"):
			if within = !within; within {
				blocks = append(blocks, nil)
			}
		case within:
			last := len(blocks) - 1
			blocks[last] = append(blocks[last], strings.TrimSuffix(line, "\n"))
		}
	}
	return blocks
}

// pageStep is a command of a page and the output that the page shows.
type pageStep struct {
	command string
	output  []string
}

// stepsOf returns the commands of a page with their outputs: a line that begins with "$ " is a command, the lines
// below it are its output.
func stepsOf(blocks [][]string) (steps []pageStep) {
	for _, block := range blocks {
		if len(block) == 0 || !strings.HasPrefix(block[0], "$ ") {
			continue
		}
		for _, line := range block {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, pageStep{command: command})
			} else {
				last := &steps[len(steps)-1]
				last.output = append(last.output, line)
			}
		}
	}
	return steps
}

// pattern matches the output: … is any text, also of several lines; blanks are as
// wide as they like, and a page may break a line at one.
func (s pageStep) pattern() *regexp.Regexp {
	text := regexp.QuoteMeta(strings.Join(s.output, "\n"))
	text = regexp.MustCompile(`\s*…\s*`).ReplaceAllString(text, `(?s:.*)`)
	text = regexp.MustCompile(`\s+`).ReplaceAllString(text, `\s+`)
	return regexp.MustCompile(`^\s*` + text + `\s*$`)
}
