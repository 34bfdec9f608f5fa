// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// laterInit is where a container of slowInit has init.
const laterInit = "/run/init"

// startLate is the program that slowInit puts in front of init: it starts init after a
// time that exceeds what init needs on any machine that is not busy.
func startLate(args []string) error {
	time.Sleep(3 * time.Second)
	return unix.Exec(laterInit, args, os.Environ())
}

// slowInit makes the containers of a lab begin late, as on a busy machine.
func (l *lab) slowInit() {
	l.t.Helper()
	dir := l.t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	must(l.t, err)
	late := filepath.Join(dir, "late")
	must(l.t, os.WriteFile(late, self, 0o755))
	l.stop()
	l.cfg.SizeFiles = map[string]string{wine.InitPath: late, laterInit: testenv.Bin("native", "init")}
	l.start()
}

// TestStartOutcome: the same mistake has the same reason, code and text, however late init begins.
func TestStartOutcome(t *testing.T) {
	l := newWineLab(t)
	t.Run("quick", func(t *testing.T) { startOutcomes(t, l) })
	l.slowInit()
	t.Run("late", func(t *testing.T) { startOutcomes(t, l) })
}

func startOutcomes(t *testing.T, l *lab) {
	sb := l.runSandbox(sandboxConfig("web"))
	for _, tt := range []struct {
		name, dir, user string
		args            []string
		operation, want string
	}{
		{"missing program", "", "", []string{"nonesuch.exe", "a b"}, `nonesuch.exe "a b"`,
			"The system cannot find the file specified."},
		{"missing path", "", "", []string{`C:\no\such.exe`}, `C:\no\such.exe`,
			"The system cannot find the file specified."},
		{"no program", "", "", []string{`C:\Windows\win.ini`}, `C:\Windows\win.ini`,
			"%1 is not a valid Win32 application."},
		{"missing directory", `C:\no\such`, "", []string{"cmd"}, "cmd", "The directory name is invalid."},
		{"missing drive", `D:\`, "", []string{"cmd"}, "cmd", "The directory name is invalid."},
		{"file as directory", `C:\Windows\win.ini`, "", []string{"cmd"}, "cmd", "The directory name is invalid."},
		{"missing account", "", "FooLish", []string{"cmd"}, "cmd", "The user name or password is incorrect."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := runAs(windowsContainer(tt.name, tt.args...), tt.user)
			c.WorkingDir = tt.dir
			id := l.create(sb, c)
			_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
			want := `failed to start containerd task "` + id + `": hcs::System::CreateProcess: ` + tt.operation +
				" " + id + ": " + tt.want + ": unknown"
			if err == nil || err.Error() != "rpc error: code = Unknown desc = "+want {
				t.Errorf("start: %v\nwant %s", err, want)
			}
			if got := l.status(id); got.Reason != "StartError" || got.ExitCode != 128 || got.Message != want {
				t.Errorf("%v", got)
			}
		})
	}
	// A program that ends at once was started.
	st := l.wait(l.run(sb, windowsContainer("exit", "cmd", "/c", "exit 3")))
	if st.ExitCode != 3 || st.Reason != "Error" {
		t.Errorf("%v", st)
	}
	_, err := l.Runtime.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: sb})
	must(t, err)
}
