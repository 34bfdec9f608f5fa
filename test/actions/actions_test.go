// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package actions

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// action holds the parts of an action.yml that GitHub reads.
type action struct {
	Name, Description string
	Inputs            map[string]struct{ Description, Default string }
	Outputs           map[string]struct{ Value string }
	Runs              struct {
		Using string
		Steps []step
	}
}

type step struct {
	ID, Name, Uses, Run, Shell, If string
	With                           map[string]any
	Env                            map[string]string
}

// all returns the actions of the repository by their directories.
func all() []string { return []string{".", "actions/up"} }

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(testenv.Repo(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestActions checks what GitHub would only find when it runs the action:
// shells, scripts, inputs, outputs of steps, targets of make.
func TestActions(t *testing.T) {
	makefile, err := os.ReadFile(testenv.Repo("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`make -C "\$DIR" ([a-z]+)`)
	input, output := regexp.MustCompile(`inputs\.([a-z]+)`), regexp.MustCompile(`steps\.([a-z]+)\.outputs`)
	for _, dir := range all() {
		t.Run(dir, func(t *testing.T) {
			var a action
			read(t, filepath.Join(dir, "action.yml"), &a)
			if a.Runs.Using != "composite" || a.Name == "" || a.Description == "" || len(a.Runs.Steps) == 0 {
				t.Fatalf("no composite action: %+v", a)
			}
			ids := map[string]bool{}
			for _, s := range a.Runs.Steps {
				if (s.Uses == "") == (s.Run == "") || s.Run != "" && s.Shell != "bash" {
					t.Errorf("step %q wants either uses, or run with a shell", s.Name)
				}
				if strings.Contains(s.Run, "${{") {
					t.Errorf("step %q: what an input holds must not become code", s.Name)
				}
				check := exec.Command("bash", "-n")
				check.Stdin = strings.NewReader(s.Run)
				if out, err := check.CombinedOutput(); err != nil {
					t.Errorf("step %q: %v: %s", s.Name, err, out)
				}
				for _, m := range target.FindAllStringSubmatch(s.Run, -1) {
					if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
						t.Errorf("step %q makes %s, which the Makefile does not know", s.Name, m[1])
					}
				}
				text, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range input.FindAllStringSubmatch(string(text), -1) {
					if _, ok := a.Inputs[m[1]]; !ok {
						t.Errorf("step %q reads the input %s, which there is not", s.Name, m[1])
					}
				}
				for _, m := range output.FindAllStringSubmatch(string(text), -1) {
					if !ids[m[1]] {
						t.Errorf("step %q reads outputs of %s, which is not an earlier step", s.Name, m[1])
					}
				}
				ids[s.ID] = true
			}
		})
	}
}

// TestFlags: the flags of mullion in the actions and the examples are those of
// the commands.
func TestFlags(t *testing.T) {
	reference, err := os.ReadFile(testenv.Repo("docs", "reference", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	section := func(command string) string {
		_, after, ok := strings.Cut(string(reference), "\n## mullion "+command+" ")
		if !ok {
			t.Fatalf("docs/reference/cli.md has no mullion %s", command)
		}
		text, _, _ := strings.Cut(after, "\n## ")
		return text
	}
	flag := regexp.MustCompile(`--[a-z-]+`)
	for command, files := range map[string][]string{"lint": {"action.yml"}, "up": {"actions/up/action.yml"}} {
		flags := section(command)
		for _, file := range files {
			var a action
			read(t, file, &a)
			text := a.Inputs["args"].Description
			for _, s := range a.Runs.Steps {
				for line := range strings.Lines(s.Run) {
					if strings.Contains(line, "args+=") || strings.Contains(line, "mullion-lint\" lint") {
						text += line
					}
				}
			}
			for _, f := range flag.FindAllString(text, -1) {
				if !strings.Contains(flags, f+" ") {
					t.Errorf("%s: mullion %s has no %s", file, command, f)
				}
			}
		}
	}
}

// TestHook: pre-commit gets the keys that it demands, and its command checks the
// folder that it runs in.
func TestHook(t *testing.T) {
	testenv.Need(t, testenv.Built)
	var hooks []struct {
		ID, Name, Entry, Language string
		Args                      []string
		PassFilenames             *bool `json:"pass_filenames"`
	}
	read(t, ".pre-commit-hooks.yaml", &hooks)
	if len(hooks) != 1 || hooks[0].ID != "mullion-lint" || hooks[0].Name == "" || hooks[0].Language != "system" ||
		hooks[0].PassFilenames == nil || *hooks[0].PassFilenames {
		t.Fatalf("hooks %+v", hooks)
	}
	folder := t.TempDir()
	words := append(strings.Fields(hooks[0].Entry), hooks[0].Args...)
	for content, want := range map[string]int{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n":                                                  0,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {os: {name: windows}, containers: [{image: x}]}\n": 1,
	} {
		if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(testenv.Bin(words[0]), words[1:]...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("exit code %d, want %d: %v: %s", cmd.ProcessState.ExitCode(), want, err, out)
		}
	}
}

// TestExampleWorkflow: the workflow that users copy names actions and inputs
// that there are.
func TestExampleWorkflow(t *testing.T) {
	var w struct {
		Jobs map[string]struct {
			RunsOn string `json:"runs-on"`
			Steps  []step
		}
	}
	read(t, "examples/lint-workflow/windows.yaml", &w)
	used := map[string]bool{}
	for name, job := range w.Jobs {
		for _, s := range job.Steps {
			dir, ok := strings.CutPrefix(s.Uses, "mullion-k8s/mullion")
			if !ok {
				continue
			}
			dir, _, _ = strings.Cut(strings.TrimPrefix(dir, "/"), "@")
			if dir == "" {
				dir = "."
			}
			used[dir] = true
			var a action
			read(t, filepath.Join(dir, "action.yml"), &a)
			for k := range s.With {
				if _, ok := a.Inputs[k]; !ok {
					t.Errorf("job %s gives %s the input %s, which it does not have", name, s.Uses, k)
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, all()) {
		t.Errorf("the example uses %q of %q", got, all())
	}
}

// TestLintStep runs the script of the lint action as a runner would.
func TestLintStep(t *testing.T) {
	if testing.Short() {
		t.Skip("builds mullion")
	}
	testenv.Compiles(t, "cmd/mullion", "internal", "pwsh")
	var a action
	read(t, "action.yml", &a)
	i := slices.IndexFunc(a.Runs.Steps, func(s step) bool { return s.Name == "mullion lint" })
	dir := t.TempDir()
	file := filepath.Join(dir, "pod.yaml")
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n" +
		"spec: {os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}, hostPID: true, containers: [{name: " +
		"c, image: 'mcr.microsoft.com/windows/nanoserver:ltsc2019', resources: {limits: {memory: 1Gi}}}]}\n"
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(sarif string) string {
		cmd := exec.Command("bash", "-c", a.Runs.Steps[i].Run)
		cmd.Env = append(os.Environ(), "RUNNER_TEMP="+dir, "DIR="+testenv.Repo(), "PATHS="+file,
			"ARGS=--builds 2022,2025", "SARIF="+sarif)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("exit code %d, want 1: %v\n%s", cmd.ProcessState.ExitCode(), err, out)
		}
		return string(out)
	}
	if out := run(""); !strings.Contains(out, "WIN004") || !strings.Contains(out, "WIN412") {
		t.Errorf("the log has not both findings:\n%s", out)
	}
	sarif := filepath.Join(dir, "windows.sarif")
	run(sarif)
	text, err := os.ReadFile(sarif)
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), "WIN412") {
		t.Errorf("SARIF: %v\n%.400s", err, text)
	}
}

// TestReleaseStep runs the script that looks for a release: one that exists is
// unpacked, one that is not there is built, and one with other content is an error.
func TestReleaseStep(t *testing.T) {
	releases := t.TempDir()
	prepare := exec.Command("bash", "-ec", `mkdir mullion v1.2.3 && echo program > mullion/mullion
		tar -czf v1.2.3/mullion_v1.2.3_linux_amd64.tar.gz mullion
		cd v1.2.3 && sha256sum * > SHA256SUMS
		cp -r . ../v1.2.4 && cd ../v1.2.4 && mv mullion_v1.2.3_linux_amd64.tar.gz mullion_v1.2.4_linux_amd64.tar.gz
		sed 's/1.2.3/1.2.4/; s/^./x/' -i SHA256SUMS`)
	prepare.Dir = releases
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dir := range all() {
		var a action
		read(t, filepath.Join(dir, "action.yml"), &a)
		i := slices.IndexFunc(a.Runs.Steps, func(s step) bool { return s.ID == "release" })
		for version, want := range map[string]string{
			"v1.2.3": "found", "v1.2.4": "refused", "v9.0.0": "built", "main": "built", "": "built",
			"v1.2.3/..": "built",
		} {
			temp := t.TempDir()
			output := filepath.Join(temp, "output")
			cmd := exec.Command("bash", "-c", a.Runs.Steps[i].Run)
			cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "VERSION="+version, "RELEASES=file://"+releases,
				"GITHUB_OUTPUT="+output)
			log, err := cmd.CombinedOutput()
			bin := filepath.Join(temp, "mullion-release", "mullion")
			text, _ := os.ReadFile(output) // not written if it is built
			got := "built"
			if err != nil {
				got = "refused"
			} else if string(text) == "bin="+bin+"\n" {
				got = "found"
			}
			_, unpacked := os.Stat(filepath.Join(bin, "mullion"))
			if got != want || (unpacked == nil) != (want == "found") {
				t.Errorf("%s, version %q: %s, want %s: %v: %s", dir, version, got, want, err, log)
			}
		}
	}
}
