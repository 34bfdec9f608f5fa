// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Programs that take the place of make, id and bin/mullion. make builds the targets that the file old lists, and fails
// for those in the file broken. bin/mullion writes its arguments to the file calls, and has the clusters of the file
// clusters.
const (
	fakeMake = `#!/bin/sh
[ -z "$MAKELEVEL" ] || echo "make[$MAKELEVEL]: Entering directory" # as make does below another
if [ "$1" = -q ]; then
  shift
  for target; do if grep -qx "$target" old; then exit 1; fi; done
  exit 0
fi
for target; do
  if grep -qx "$target" broken; then echo "$target: a compiler's error" >&2; exit 2; fi
  sed -i "\|^$target\$|d" old
  echo "  GO     $target"
done
`
	fakeMullion = `#!/bin/sh
if [ "$1" = list ]; then exec cat clusters; fi
echo default >clusters
echo "$@, to build: $(wc -l <old)" >>calls
`
)

// TestUp: hack/up prints a line for each step, starts a new cluster's Windows nodes before the programs of the worker
// are built, and adds the worker at the end.
func TestUp(t *testing.T) {
	const (
		all = "bin/mullion\nbin/mullion-kube\nbin/windows/kubelet.exe\nnative\n" +
			"bin/linux/kubelet\nbin/linux/containerd\n"
		windows = "up --linux 0, to build: 2\n"
	)
	for _, tc := range []struct {
		name, old, clusters, broken, flags string
		code                               int
		lines                              int // of steps
		calls                              string
	}{
		{name: "first time", old: all, lines: 6, calls: windows + "up --linux 1, to build: 0\n"},
		{name: "again", lines: 0, calls: "up, to build: 0\n", clusters: "default\n"},
		{name: "newer sources", old: all, clusters: "ci\ndefault\n", lines: 6, calls: "up, to build: 0\n"},
		{name: "flags", old: all, flags: "--network vxlan", lines: 6, calls: "up --network vxlan, to build: 0\n"},
		{name: "fails", old: all, broken: "bin/windows/kubelet.exe\n", code: 2, lines: 2},
		{name: "fails late", old: all, broken: "bin/linux/kubelet\n", code: 2, lines: 4, calls: windows},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			script, err := os.ReadFile("hack/up")
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"hack/up": string(script), "path/make": fakeMake, "path/id": "#!/bin/sh\necho 0\n",
				"bin/mullion": fakeMullion, "old": tc.old, "broken": tc.broken, "clusters": tc.clusters, "calls": "",
			} {
				if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			run := func() (string, int) {
				cmd := exec.Command("hack/up", strings.Fields(tc.flags)...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "MAKELEVEL=1", "PATH="+filepath.Join(dir, "path")+":"+os.Getenv("PATH"))
				out, _ := cmd.CombinedOutput() // the code is compared
				return string(out), cmd.ProcessState.ExitCode()
			}
			out, code := run()
			steps := regexp.MustCompile(`(?m)^  \d/\d  .* \d+m\d\ds  of \d+m\d\ds$`).FindAllString(out, -1)
			if code != tc.code || len(steps) != tc.lines {
				t.Errorf("exit code %d and %d steps, want %d and %d:\n%s", code, len(steps), tc.code, tc.lines, out)
			}
			if regexp.MustCompile(`[\x00-\x09\x0b-\x1f]`).MatchString(out) {
				t.Errorf("control characters in a pipe: %q", out)
			}
			if strings.Contains(out, "Entering directory") {
				t.Errorf("make's own messages are shown:\n%s", out)
			}
			if tc.broken != "" {
				if !strings.Contains(out, "compiler's error") || !strings.Contains(out, "up: error: step ") {
					t.Errorf("the error is not shown:\n%s", out)
				}
				if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if tc.calls != "" { // the worker is added by the next run
					tc.calls += "up --linux 1, to build: 0\n"
				} else {
					tc.calls = windows + "up --linux 1, to build: 0\n"
				}
				if out, code := run(); code != 0 {
					t.Errorf("the next run: exit code %d:\n%s", code, out)
				}
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			if string(calls) != tc.calls {
				t.Errorf("it called mullion\n%swant\n%s", calls, tc.calls)
			}
		})
	}
}
