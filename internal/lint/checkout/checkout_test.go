// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package checkout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// git runs git in a folder. Exit code 1 is the answer "none" of check-ignore.
func git(t testing.TB, dir, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "core.excludesFile=/dev/null"}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("git %q: %v: %s", args, err, errs.String())
	}
	return out.String()
}

// TestAsGit compares random patterns in two folders with what git makes of them.
func TestAsGit(t *testing.T) {
	patterns := strings.Split("a|/a|a/|/a/|a/b|a/*|a/**|**/a|**/a/b|a/**/b|*.yaml|!*.yaml|!a|!a/b|?|[ab]|[!a]|[^a]|"+
		"*|!*/|f/|f/*.yaml|!f/a.yaml|\\#x|\\!x|foo bar|a |a\\ |#x|!f/|/*|!/f|/f/*|!/f/a|b/**|**/b/**|**|a*b|*a|f??|"+
		"/**/a|a**|f/**/*.yaml|[a-c]b|.*|\\a|{a,b}|[|[[:alpha:]]|[^[:lower:]x]|a\r", "|")
	names := []string{"a", "b", "ab", "a.yaml", "b.yaml", "f", "foo bar", "#x", "!x", ".x", "{a,b}"}
	random := rand.New(rand.NewPCG(1, 2))
	lines := func() string {
		var out strings.Builder
		for range 1 + random.IntN(3) {
			fmt.Fprintln(&out, patterns[random.IntN(len(patterns))])
		}
		return out.String()
	}
	dir := Real(t.TempDir())
	git(t, dir, "", "init", "-q")
	for range 300 {
		top, below, info := lines(), lines(), lines()
		write(t, filepath.Join(dir, ".gitignore"), top)
		write(t, filepath.Join(dir, "a", ".gitignore"), below)
		write(t, filepath.Join(dir, ".git/info/exclude"), info)
		var paths []string
		for range 40 {
			path := names[random.IntN(len(names))]
			for range random.IntN(4) {
				path += "/" + names[random.IntN(len(names))]
			}
			paths = append(paths, path)
		}
		out := git(t, dir, strings.Join(paths, "\x00"), "check-ignore", "--no-index", "-z", "--stdin")
		m := Ignored(dir)
		for _, path := range paths {
			want := strings.Contains("\x00"+out, "\x00"+path+"\x00")
			if path == "a" {
				continue // a folder on the disk
			}
			if got := m.Excludes(filepath.Join(dir, path), false); got != want {
				t.Errorf("%q is excluded: %v, git says %v; info/exclude:\n%s.gitignore:\n%sa/.gitignore:\n%s",
					path, got, want, info, top, below)
			}
		}
	}
}

func TestNew(t *testing.T) {
	m, err := New("/r", []string{"vendor/", "*.gen.yaml", "# no pattern", ""})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/r/vendor/x.yaml": true, "/r/a/vendor/b/x.yaml": true, "/r/vendor": false, "/r/a.gen.yaml": true,
		"/r": false, "/x.gen.yaml": false, "/rest/x.gen.yaml": false,
	} {
		if got := m.Excludes(path, false); got != want {
			t.Errorf("%s is excluded: %v", path, got)
		}
	}
	if !m.Excludes("/r/vendor", true) {
		t.Error("a folder is not excluded")
	}
	for _, bad := range []string{"[", "a[b", strings.Repeat("a", 5000)} {
		if _, err := New("/r", []string{bad}); err == nil {
			t.Errorf("%.20q is a pattern", bad)
		}
	}
}

func TestRoot(t *testing.T) {
	dir := Real(t.TempDir())
	write(t, filepath.Join(dir, "r/.git"), "gitdir: elsewhere\n") // as in a worktree
	write(t, filepath.Join(dir, "r/a/b.yaml"), "")
	if got := Root(filepath.Join(dir, "r/a/b.yaml")); got != filepath.Join(dir, "r") {
		t.Errorf("root %q", got)
	}
	if got := Root(dir); got != "" {
		t.Errorf("root %q outside of a checkout", got)
	}
}

// FuzzMatch: no pattern panics, and none takes forever.
func FuzzMatch(f *testing.F) {
	f.Add("a/**/b\n!*.yaml\n", "a/x/b.yaml")
	f.Add(strings.Repeat("**/", 30)+"x", strings.Repeat("a/", 30)+"b")
	f.Add(strings.Repeat("*a", 30), strings.Repeat("a", 60))
	f.Fuzz(func(_ *testing.T, text, path string) {
		if len(text) < 1<<10 && len(path) < 1<<10 {
			match(parsePatterns(text), path, false)
		}
	})
}
