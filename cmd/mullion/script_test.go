// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build linux && amd64

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/agentcmd"
	"github.com/mullion-k8s/mullion/internal/cli/linuxhostcmd"
	"github.com/mullion-k8s/mullion/internal/cli/winhostcmd"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// windowsCommands is commands of commands_windows.go, whose errors and help are
// the same everywhere.
func windowsCommands() []cli.Command {
	return []cli.Command{
		{Group: cli.Node, New: agentcmd.New},
		{Group: cli.Internal, New: agentcmd.NewService},
	}
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mullion": main,
		"kubectl": main,
		"mullion.exe": func() {
			os.Exit(cli.Run(context.Background(), cli.Stdio(), os.Args, windowsCommands()))
		},
		"mullion-winhost": func() {
			s := cli.Stdio()
			os.Exit(cli.RunProgram(context.Background(), s, os.Args, winhostcmd.New(s)))
		},
		"mullion-linuxhost": func() {
			s := cli.Stdio()
			os.Exit(cli.RunProgram(context.Background(), s, os.Args, linuxhostcmd.New(s)))
		},
	})
}

// needsBuilt is the first line of the scripts that run programs of bin/.
const needsBuilt = "# needs the programs that make build makes\n"

// TestScripts runs testdata/script/*.txtar: what a user types, and what mullion
// answers. The scripts need neither root nor a cluster nor a network.
// Beside the commands of testscript (see its documentation) they use
//
//	exits CODE PROGRAM [ARGUMENT...]   run a program that must exit with this code
//	apiserver FOLDER KUBECONFIG        serve FOLDER as an API server, see startAPI
func TestScripts(t *testing.T) { runScripts(t, false) }

// TestScriptsOfBuiltPrograms runs the scripts that call mullion-kube.
func TestScriptsOfBuiltPrograms(t *testing.T) {
	testenv.Need(t, testenv.Built)
	runScripts(t, true)
}

func runScripts(t *testing.T, built bool) {
	var files []string
	for path, script := range scripts(t) {
		if strings.HasPrefix(script, needsBuilt) == built {
			files = append(files, path)
		}
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       flag.Lookup("update").Value.String() == "true", // of package testenv
		Setup: func(e *testscript.Env) error {
			mullion, err := exec.LookPath("mullion")
			if err != nil {
				return err
			}
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("MULLION", mullion)
			e.Setenv("MULLION_DATA", filepath.Join(e.WorkDir, "data"))
			e.Setenv("BIN", testenv.Bin())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "apiserver": startAPI},
	})
}

// scripts returns the scripts by their paths.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	return all
}

// exits is like exec, but for one exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// startAPI serves a folder until the script ends and writes a kubeconfig for it.
// The answer for /api/v1/nodes is in api/v1/nodes.json; every other path has the
// answer in default.json. An answer that is a Status sets the HTTP status code.
func startAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: apiserver FOLDER KUBECONFIG")
	}
	dir, kubeconfig := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(r.URL.Path)) + ".json")
		if err != nil {
			body, err = os.ReadFile(filepath.Join(dir, "default.json"))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var status struct{ Code int }
		if json.Unmarshal(body, &status) == nil && status.Code != 0 {
			w.WriteHeader(status.Code)
		}
		_, _ = w.Write(body) // fails if the client has gone
	}))
	ts.Defer(s.Close)
	ts.Check(os.MkdirAll(filepath.Dir(kubeconfig), 0o755))
	ts.Check(os.WriteFile(kubeconfig, fmt.Appendf(nil, `{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": [{"name": "c", "context": {"cluster": "c"}}],
		"clusters": [{"name": "c", "cluster": {"server": %q}}]
	}`, s.URL), 0o600))
}

// TestEveryCommandHasAScript walks the commands: the script of `mullion lint
// explain` is lint_explain.txtar, and more scripts of one command have names such
// as lint-fix.txtar. A script calls its command and shows its help.
func TestEveryCommandHasAScript(t *testing.T) {
	text := map[string]string{} // by command
	for path, script := range scripts(t) {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".txtar"), "-")
		text[name] += script
	}
	known := map[string]bool{}
	for program, commands := range map[string][]cli.Command{"mullion": commands(), "mullion.exe": windowsCommands()} {
		for cmd := range walk(cli.Root(cli.Streams{}, commands)) {
			if program != "mullion" && (!cmd.HasParent() || standard(cmd)) {
				continue // the same in both programs
			}
			words := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "mullion"), " ")
			name := strings.ReplaceAll(words, " ", "_")
			if name == "" {
				name = "mullion"
			}
			switch script, ok := text[name]; {
			case !ok:
				t.Errorf("%s has no script testdata/script/%s.txtar", cmd.CommandPath(), name)
			case !strings.Contains(script, strings.TrimSpace("exec "+program+" "+words)+" --help\n"):
				t.Errorf("testdata/script/%s.txtar does not show the help: exec %s %s --help", name, program, words)
			}
			known[name] = true
		}
	}
	hosts := slices.Concat(slices.Collect(walk(winhostcmd.New(cli.Streams{}))),
		slices.Collect(walk(linuxhostcmd.New(cli.Streams{}))))
	for _, cmd := range hosts {
		name := strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "mullion-"), " ", "_")
		if !strings.Contains(text[name], "exec "+cmd.CommandPath()+" --help\n") {
			t.Errorf("testdata/script/%s.txtar does not show the help: exec %s --help", name, cmd.CommandPath())
		}
		known[name] = true
	}
	for name := range text {
		if known[name] {
			continue
		}
		t.Errorf("testdata/script/%s.txtar belongs to no command", name)
	}
}
