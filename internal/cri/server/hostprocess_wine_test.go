// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/hostprocess"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// newHostLab returns a lab with an emulated host around it: a prefix, its
// wineserver, and a program that a container can look for.
func newHostLab(t *testing.T) *lab {
	t.Helper()
	l := newWineLab(t)
	l.stop()
	rt, err := wine.OpenRuntime(t.Context(), testenv.Cache(t), testenv.Bin(), slog.New(slog.DiscardHandler))
	must(t, err)
	template, err := rt.HostPrefix(t.Context(), l.cfg.Build)
	must(t, err)
	dir := t.TempDir()
	prefix := filepath.Join(dir, "prefix")
	for _, d := range []string{"prefix", "upper", "work", "views"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	must(t, unix.Mount("overlay", prefix, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work",
		template, dir, dir)))
	t.Cleanup(func() { must(t, unix.Unmount(prefix, unix.MNT_DETACH)) })
	// The lab's directories of drive C, on the host's.
	must(t, os.CopyFS(filepath.Join(prefix, "drive_c"), os.DirFS(l.cfg.Drive)))
	l.drive = filepath.Join(prefix, "drive_c")
	l.cfg.Drive, l.cfg.Hostname = l.drive, "win-1"
	// Something to find in the list of processes.
	program, err := os.ReadFile(testenv.Bin("windows", "powershell.exe"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(l.drive, "kubelet.exe"), program, 0o755))
	h := wine.Host{Runtime: rt.Dir, Prefix: prefix}
	sockets := hostServer(t, h)
	argv := h.Argv(`C:\kubelet.exe`, "-Command", "Start-Sleep 1000")
	agent := exec.Command(argv[0], argv[1:]...)
	agent.Env, agent.Dir = h.Env(), l.drive
	must(t, agent.Start())
	t.Cleanup(func() { _, _ = agent.Process.Kill(), agent.Wait() })
	l.cfg.HostProcesses = &hostprocess.Host{
		Wine:     h,
		Drive:    l.cfg.Drive,
		Computer: l.cfg.Hostname,
		Views:    filepath.Join(dir, "views"),
		Sockets:  sockets,
		Shared:   []string{"/usr", "/etc"},
	}
	l.start()
	return l
}

// hostServer starts a wineserver and returns the directory of its socket.
func hostServer(t *testing.T, h wine.Host) string {
	t.Helper()
	server := exec.Command(filepath.Join(h.Runtime, "usr/lib/wine/wineserver"), "-f", "-p")
	server.Env = h.Env()
	must(t, server.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stop := exec.CommandContext(ctx, filepath.Join(h.Runtime, "usr/lib/wine/wineserver"), "-k")
		stop.Env = h.Env()
		_ = stop.Run() // the server's own end is waited for
		_ = server.Wait()
	})
	var st unix.Stat_t
	must(t, unix.Stat(h.Prefix, &st))
	name := fmt.Sprintf("server-%x-%x", st.Dev, st.Ino)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, pattern := range []string{"/tmp/.wine-*/", "/tmp/wine-*/", "/run/user/*/wine/"} {
			if found, _ := filepath.Glob(pattern + name + "/socket"); len(found) > 0 {
				return filepath.Dir(filepath.Dir(found[0]))
			}
		}
	}
	t.Fatal("wineserver has no socket")
	return ""
}

func hostSandbox(name string) *runtime.PodSandboxConfig {
	c := sandboxConfig(name)
	c.PortMappings = nil
	c.Windows.SecurityContext.HostProcess = true
	return c
}

func hostContainer(name, user string, args ...string) *runtime.ContainerConfig {
	c := runAs(windowsContainer(name, args...), user)
	c.Windows.SecurityContext.HostProcess = true
	return c
}

const system = `NT AUTHORITY\SYSTEM`

// tool returns a program of the image.
func tool(name string) string { return `C:\hpc\windows\system32\` + name + `.exe` }

// TestHostProcess: a container that is a job on the host.
func TestHostProcess(t *testing.T) {
	l := newHostLab(t)
	config := hostSandbox("agent")
	sb := l.runSandbox(config)
	if len(l.namespaces.Namespaces()) != 0 || len(l.plugins.Commands()) != 0 {
		t.Error("a host process sandbox has a network of its own")
	}
	t.Run("sees the host", func(t *testing.T) { hostProcessSees(t, l, sb, config) })
	t.Run("exec, stop, codes", func(t *testing.T) { hostProcessCodes(t, l, sb) })
	t.Run("leaves nothing running", func(t *testing.T) { hostProcessEnds(t, l, sb) })
	t.Run("users", func(t *testing.T) { hostProcessUsers(t, l, sb, config) })
	t.Run("refuses pipes", func(t *testing.T) {
		c := hostContainer("p", system, "cmd")
		c.Mounts = []*runtime.Mount{{HostPath: `\\.\pipe\x`, ContainerPath: `\\.\pipe\x`}}
		_, err := l.Runtime.CreateContainer(t.Context(), &runtime.CreateContainerRequest{PodSandboxId: sb, Config: c})
		if err == nil ||
			!strings.Contains(err.Error(), "named pipe mounts not supported for job containers - interact with the "+
				"pipe directly") {
			t.Errorf("%v", err)
		}
	})
}

// hostProcessSees: a host process sees the files and programs of the host.
func hostProcessSees(t *testing.T, l *lab, sb string, config *runtime.PodSandboxConfig) {
	must(t, os.MkdirAll(filepath.Join(l.drive, "vol"), 0o755))
	must(t, os.WriteFile(filepath.Join(l.drive, "vol", "in.txt"), []byte("of the volume\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(l.drive, "one.txt"), []byte("one file\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(l.drive, "host.txt"), []byte("of the host\n"), 0o644))
	c := hostContainer("a", system, "cmd", "/c", `cd & `+tool("whoami")+
		` & type C:\host.txt & type C:\mnt\v\in.txt & type C:\hpc\mnt\v\in.txt & type C:\etc\one.txt & echo `+
		`[%CONTAINER_SANDBOX_MOUNT_POINT%] %USERPROFILE% & `+
		`%CONTAINER_SANDBOX_MOUNT_POINT%\windows\system32\tasklist.exe & sc query spooler & set & echo `+
		`new>C:\made.txt & echo ro>C:\ro\x.txt & echo up>C:\hpc\up.txt`)
	c.Mounts = []*runtime.Mount{
		{HostPath: `C:\vol`, ContainerPath: `C:\mnt\v`},
		{HostPath: `C:\vol`, ContainerPath: `C:\ro`, Readonly: true},
		{HostPath: `C:\one.txt`, ContainerPath: `C:\etc\one.txt`},
	}
	l.wait(l.run(sb, c))
	contains(t, l.plainLog(config, "a"),
		"C:\\hpc\n", "nt authority\\system\n", "of the host\n", "of the volume\nof the volume\n", "one file\n",
		"[C:\\hpc] C:\\Windows\\system32\\config\\systemprofile\n", "kubelet.exe", "SERVICE_NAME: spooler",
		"CONTAINER_SANDBOX_MOUNT_POINT=C:\\hpc\\\n")
	if data, err := os.ReadFile(filepath.Join(l.drive, "made.txt")); err != nil ||
		!strings.HasPrefix(string(data), "new") {
		t.Errorf("a file on the host: %q, %v", data, err)
	}
	for _, never := range []string{"vol/x.txt", "hpc/up.txt", "hpc/License.txt"} {
		if _, err := os.Stat(filepath.Join(l.drive, never)); err == nil {
			t.Errorf("the host has %s", never)
		}
	}
}

// hostProcessCodes: commands in it, its stop and its exit codes are as usual.
func hostProcessCodes(t *testing.T, l *lab, sb string) {
	id := l.run(sb, hostContainer("b", system, tool("ping"), "-t", "127.0.0.1"))
	r, err := l.Runtime.ExecSync(t.Context(),
		&runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", tool("whoami") + " & cd & exit 300"},
			Timeout: 60})
	must(t, err)
	contains(t, strings.ReplaceAll(string(r.Stdout), "\r", ""), "nt authority\\system\n", "C:\\hpc\n")
	if r.ExitCode != 300 {
		t.Errorf("exit code %d", r.ExitCode)
	}
	r, err = l.Runtime.ExecSync(t.Context(), &runtime.ExecSyncRequest{
		ContainerId: id,
		Cmd:         []string{`%CONTAINER_SANDBOX_MOUNT_POINT%\windows\system32\whoami.exe`},
		Timeout:     60,
	})
	must(t, err)
	contains(t, string(r.Stdout), "nt authority\\system")
	// A restart of the runtime is not seen by the container.
	l.stop()
	l.start()
	if st := l.status(id); st.State != runtime.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after the restart: %v", st)
	}
	_, err = l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id, Timeout: 20})
	must(t, err)
	if st := l.status(id); st.State != runtime.ContainerState_CONTAINER_EXITED || st.ExitCode == 137 {
		t.Errorf("not stopped by an event: %v", st)
	}
	if st := l.wait(l.run(sb, hostContainer("c", system, "cmd", "/c", "exit 1000"))); st.ExitCode != 1000 {
		t.Errorf("%v", st)
	}
	// The shell refuses what is not a program, as on Windows.
	if st := l.wait(l.run(sb, hostContainer("d", system, "no-such-program"))); st.ExitCode == 0 {
		t.Errorf("%v", st)
	}
}

// hostProcessEnds: its children end with it, and nothing else does.
func hostProcessEnds(t *testing.T, l *lab, sb string) {
	id := l.run(sb, hostContainer("e", system, "cmd", "/c", "start /b "+tool("ping")+" -t 127.0.0.1 & exit 3"))
	if st := l.wait(id); st.ExitCode != 3 {
		t.Errorf("%v", st)
	}
	id = l.run(sb, hostContainer("f", system, "cmd", "/c", tool("ping")+" -t 127.0.0.1"))
	_, err := l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id})
	must(t, err)
	testenv.Until(l.t, "the end of all", func() bool {
		out, err := exec.Command("pgrep", "-f", `hpc.windows.system32.ping.exe`).Output()
		return err != nil && len(out) == 0
	})
	out, err := exec.Command("pgrep", "-f", `C:.kubelet.exe`).Output()
	if err != nil || len(out) == 0 {
		t.Error("the host's own program has ended too")
	}
}

// hostProcessUsers: it runs as an account of the host, or in a group.
func hostProcessUsers(t *testing.T, l *lab, sb string, config *runtime.PodSandboxConfig) {
	must(t, os.MkdirAll(filepath.Join(l.drive, "ProgramData", "mullion"), 0o700))
	must(t, os.WriteFile(filepath.Join(l.drive, "ProgramData", "mullion", "accounts.json"),
		[]byte(`{"groups":{"hpc-localgroup":[]}}`), 0o600))
	for i, tt := range []struct{ user, want, err string }{
		{`NT AUTHORITY\Local service`, `nt authority\local service`, ""},
		{`NT AUTHORITY\NetworkService`, `nt authority\network service`, ""},
		{"hpc-localgroup", `\`, ""},
		{"administrators", `\`, ""},
		{"", "", "failed to create user process token: empty username or group name passed"},
		{`NT Authority\SYSTEM`, "", "failed to logon user: The user name or password is incorrect."},
		{"ContainerAdministrator", "", "failed to logon user: The user name or password is incorrect."},
		{"no-group", "", "failed to logon user: The user name or password is incorrect."},
	} {
		name := "u" + string(rune('a'+i))
		id := l.create(sb, hostContainer(name, tt.user, tool("whoami"), "/all"))
		_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || l.status(id).Reason != "StartError" {
				t.Errorf("%q: %v, %v", tt.user, err, l.status(id))
			}
			continue
		}
		must(t, err)
		l.wait(id)
		out := l.plainLog(config, name)
		want := tt.want
		if strings.HasSuffix(want, `\`) {
			want += id[:20]
		}
		if tt.user == "administrators" != strings.Contains(out, `BUILTIN\Administrators`) &&
			!strings.HasPrefix(tt.user, "NT") {
			t.Errorf("%q: groups\n%s", tt.user, out)
		}
		contains(t, out, want)
	}
}

// contains fails the test for each text that is not in the output, whatever
// blanks end its lines.
func contains(t *testing.T, out string, wants ...string) {
	t.Helper()
	flat := strings.ReplaceAll(out, " \n", "\n")
	for _, want := range wants {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
