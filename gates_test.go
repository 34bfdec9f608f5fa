// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// groupOf maps the end-to-end tests to the groups that they declare.
func groupOf(t *testing.T) map[string]string {
	t.Helper()
	groups := map[string]string{}
	for _, group := range []string{"shared", "alone", "own"} {
		out, err := exec.Command("go", "run", "./tools/testgroups", "test/e2e", group).CombinedOutput()
		names, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "^(")
		if err != nil || !ok {
			t.Fatalf("testgroups: %v: %s", err, out)
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(names, ")$"), "|") {
			groups[name] = group
		}
	}
	return groups
}

// killers lists the functions of a package by the name of a test that reaches them, through functions and methods of
// the package: by name alone, so a test may be found that kills nothing.
func killers(t *testing.T, dir string) (tests map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	calls := map[string]map[string]bool{} // by function or method
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if calls[fn.Name.Name] == nil {
				calls[fn.Name.Name] = map[string]bool{}
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if x, ok := n.(*ast.Ident); ok {
					calls[fn.Name.Name][x.Name] = true
				}
				return true
			})
		}
	}
	// Signals that end or stop programs. Kill of exec.Cmd ends a program of the test itself, and does not count.
	kills := map[string]bool{"SIGKILL": true, "SIGSTOP": true, "SIGTERM": true}
	for before := 0; before != len(kills); {
		before = len(kills)
		for fn, called := range calls {
			for name := range called {
				if kills[name] {
					kills[fn] = true
				}
			}
		}
	}
	tests = map[string]bool{}
	for fn := range calls {
		if strings.HasPrefix(fn, "Test") && fn != "TestMain" {
			tests[fn] = kills[fn]
		}
	}
	return tests
}

// TestGroups: each end-to-end test declares its group, and those that kill or stop programs do not run beside others.
func TestGroups(t *testing.T) {
	tests, groups := killers(t, "test/e2e"), groupOf(t)
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		beside := groups[name] == "shared"
		if why := killsItsOwn[name]; tests[name] && beside && why == "" {
			t.Errorf("%s kills or stops programs: begin it with alone or ownCluster", name)
		} else if (!tests[name] || !beside) && why != "" {
			t.Errorf("%s need not be excepted", name)
		}
		if groups[name] == "" {
			t.Errorf("%s is in no group", name)
		}
	}
}

// killsItsOwn excepts tests that kill programs which no other test uses.
var killsItsOwn = map[string]string{"TestStorage": "the program of a pod that it made"}

// Outputs of `go test -fuzz`, of Go 1.26.
const (
	fuzzLate = `fuzz: elapsed: 20s, execs: 40304 (0/sec), new interesting: 104 (total: 108)
--- FAIL: FuzzIt (20.20s)
    context deadline exceeded
FAIL
exit status 1
FAIL	example.test/a	20.202s
`
	fuzzHung = `fuzz: elapsed: 20s, execs: 40304 (0/sec), new interesting: 104 (total: 108)
--- FAIL: FuzzIt (20.20s)
    fuzzing process terminated by unexpected signal; no crash will be recorded: signal: killed
FAIL
`
	fuzzCrash = `fuzz: elapsed: 0s, gathering baseline coverage: 0/1 completed
--- FAIL: FuzzIt (0.01s)
    --- FAIL: FuzzIt (0.00s)
        a_test.go:9: context deadline exceeded

    Failing input written to testdata/fuzz/FuzzIt/0123456789abcdef
    To re-run:
    go test -run=FuzzIt/0123456789abcdef
FAIL
`
)

// TestFuzz: an input that crashes a fuzz target fails hack/fuzz, is kept and shown.
func TestFuzz(t *testing.T) {
	const input = "a/testdata/fuzz/FuzzIt/0123456789abcdef"
	for _, tc := range []struct {
		name, output string
		arg          string
		code         int
		says, kept   string
	}{
		{name: "passes", output: "PASS\n"},
		{name: "out of time", output: fuzzLate, code: 0, says: "fuzz: warning: a FuzzIt failed at the end of its time"},
		{name: "killed", output: fuzzHung, code: 1, says: "fuzz: error: a FuzzIt failed without a new input"},
		{name: "crash", output: fuzzCrash, code: 1, says: `[]byte("\xff")`, kept: input},
		{name: "crash today", output: fuzzCrash, arg: "--today", code: 1, says: `[]byte("\xff")`,
			kept: "bin/fuzz/a/FuzzIt/0123456789abcdef"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repo := fakeRepo(t, tc.output, input)
			cmd := exec.Command("hack/fuzz", slices.DeleteFunc([]string{tc.arg},
				func(s string) bool { return s == "" })...)
			cmd.Dir = repo
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(repo, "path")+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != tc.code {
				t.Errorf("exit code %d, %v, want %d", cmd.ProcessState.ExitCode(), err, tc.code)
			}
			if !strings.Contains(string(out), tc.says) || t.Failed() {
				t.Errorf("it printed %s\nwant %q", out, tc.says)
			}
			if _, err := os.Stat(filepath.Join(repo, tc.kept)); err != nil {
				t.Errorf("the input is not kept: %v", err)
			}
			if _, err := os.Stat(filepath.Join(repo, input)); tc.kept != input && err == nil {
				t.Error("the input is a seed of the tests that run beside")
			}
		})
	}
}

// fakeRepo returns a repository with hack/fuzz, a fuzz target, and a program go that fails with an output and writes
// the input that it mentions.
func fakeRepo(t *testing.T, output, input string) string {
	t.Helper()
	repo := t.TempDir()
	script, err := os.ReadFile("hack/fuzz")
	if err != nil {
		t.Fatal(err)
	}
	fake := "#!/bin/sh\ncat <<'EOF'\n" + output + "EOF\n"
	if strings.Contains(output, filepath.Base(input)) {
		fake += "mkdir -p " + filepath.Dir(input) + "\n" +
			`printf 'go test fuzz v1\n[]byte("\\xff")\n' >` + input + "\n"
	}
	if strings.Contains(output, "FAIL") {
		fake += "exit 1\n"
	}
	for name, text := range map[string]string{
		"hack/fuzz": string(script), "path/go": fake,
		"a/a_test.go": "package a\n\nfunc FuzzIt(f *testing.F) {}\n",
	} {
		if err := os.MkdirAll(filepath.Join(repo, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.test", "-c", "commit.gpgsign=false",
			"-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "a"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git: %v: %s", err, out)
		}
	}
	return repo
}
