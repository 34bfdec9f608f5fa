// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

const nanoserver = "mcr.microsoft.com/windows/nanoserver:1809"

func runAs(c *runtime.ContainerConfig, user string) *runtime.ContainerConfig {
	c.Windows = &runtime.WindowsContainerConfig{SecurityContext: &runtime.WindowsContainerSecurityContext{
		RunAsUsername: user}}
	return c
}

// plainLog returns a container's log without timestamps and stream names.
func (l *lab) plainLog(config *runtime.PodSandboxConfig, name string) string {
	var b strings.Builder
	for line := range strings.Lines(l.logText(config, name)) {
		f := strings.SplitN(line, " ", 4)
		if len(f) < 4 {
			continue
		}
		text := strings.TrimSuffix(f[3], "\n")
		b.WriteString(strings.ReplaceAll(text, "\r", ""))
		if f[2] == "F" {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// TestAccounts: whatever a program asks Windows with, the answer is the account
// that the pod, or else the image, names.
func TestAccounts(t *testing.T) {
	l := newWineLab(t)
	config := sandboxConfig("web")
	sb := l.runSandbox(config)
	for i, tt := range []struct {
		user, image string
		name, sid   string // of whoami
		user1       string // of %USERNAME%
		domain      string // of %USERDOMAIN%
		profile     string
		admin       bool
	}{
		{"", servercore, `user manager\containeradministrator`, "S-1-5-93-2-1", "ContainerAdministrator",
			"User Manager", `C:\Users\ContainerAdministrator`, true},
		{"", nanoserver, `user manager\containeruser`, "S-1-5-93-2-2", "ContainerUser", "User Manager",
			`C:\Users\ContainerUser`, false},
		{"CONTAINERUSER", servercore, `user manager\containeruser`, "S-1-5-93-2-2", "ContainerUser", "User Manager",
			`C:\Users\ContainerUser`, false},
		{"ContainerAdministrator", nanoserver, `user manager\containeradministrator`, "S-1-5-93-2-1",
			"ContainerAdministrator", "User Manager", `C:\Users\ContainerAdministrator`, true},
		{`NT AUTHORITY\SYSTEM`, servercore, `nt authority\system`, "S-1-5-18", "WEB$", "WORKGROUP",
			`C:\Windows\system32\config\systemprofile`, true},
		{`nt authority\network service`, servercore, `nt authority\network service`, "S-1-5-20", "WEB$", "WORKGROUP",
			`C:\Windows\ServiceProfiles\NetworkService`, false},
		{`NT AUTHORITY\LocalService`, servercore, `nt authority\local service`, "S-1-5-19", "LOCAL SERVICE",
			"NT AUTHORITY", `C:\Windows\ServiceProfiles\LocalService`, false},
	} {
		t.Run(tt.user+" in "+tt.image, func(t *testing.T) {
			name := "c" + string(rune('a'+i))
			c := runAs(windowsContainer(name, "cmd", "/c",
				`whoami & whoami /user /fo csv /nh & whoami /groups /fo csv /nh & echo [%USERDOMAIN%\%USERNAME%] `+
					`[%USERPROFILE%]`+
					` & echo x>%TEMP%\own.txt & type %TEMP%\own.txt & mkdir C:\made & echo y>C:\made\f & type `+
					`C:\made\f`+
					` & echo z>C:\file.txt & echo z>C:\Windows\file.txt & cd C:\Program Files & echo z>file.txt & `+
					`(if exist file.txt echo wrote-programs) & (if exist C:\file.txt echo wrote-root) & (if exist `+
					`C:\Windows\file.txt echo wrote-windows) & ping -n 1000 localhost`), tt.user)
			c.Image.Image = tt.image
			id := l.run(sb, c)
			t.Cleanup(func() {
				if t.Failed() || l.t.Failed() {
					t.Log(l.status(id), l.plainLog(config, name))
				}
			})
			testenv.Until(l.t, "the end of the commands", func() bool {
				return strings.Contains(l.plainLog(config, name), "Pinging")
			})
			out := l.plainLog(config, name)
			for _, want := range []string{
				tt.name + "\n", `"` + tt.name + `","` + tt.sid + `"`, "[" + tt.domain + `\` + tt.user1 + "] [" +
					tt.profile + "]", "\nx", "\ny",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if got := strings.Contains(out, `"BUILTIN\Administrators"`); got != tt.admin {
				t.Errorf("member of Administrators: %v", got)
			}
			for _, what := range []string{"wrote-root", "wrote-windows", "wrote-programs"} {
				if got := strings.Contains(out, what+" \n") || strings.Contains(out, what+"\n"); got != tt.admin {
					t.Errorf("%s: %v", what, got)
				}
			}
			// exec runs as the same account.
			r, err := l.Runtime.ExecSync(t.Context(), &runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"whoami"},
				Timeout: 60})
			must(t, err)
			if got := strings.TrimSpace(string(r.Stdout)); got != tt.name {
				t.Errorf("exec as %q", got)
			}
			_, err = l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id})
			must(t, err)
		})
	}
}

// TestEnvironmentOfPod: what a pod says counts more than the registry, as on
// Windows; names have no case.
func TestEnvironmentOfPod(t *testing.T) {
	l := newWineLab(t)
	config := sandboxConfig("web")
	sb := l.runSandbox(config)
	c := windowsContainer("a", "cmd", "/c", "set & whoami & echo [%EMPTY%]")
	for name, value := range map[string]string{
		"TEMP": `C:\other`, "userprofile": `C:\me`, "OS": "mine", "Path": `C:\bin;C:\Windows\System32`,
		"ProgramFiles(x86)": `C:\pf`, "a=b": "c", "Quoted": `"x y"`, "USERNAME": "stranger",
	} {
		c.Envs = append(c.Envs, &runtime.KeyValue{Key: name, Value: []byte(value)})
	}
	l.wait(l.run(sb, c))
	out := l.plainLog(config, "a")
	for _, want := range []string{
		"TEMP=C:\\other\n", "userprofile=C:\\me\n", "OS=mine\n", "Path=C:\\bin;C:\\Windows\\System32\n",
		"ProgramFiles(x86)=C:\\pf\n", "Quoted=\"x y\"\n", "USERNAME=stranger\n",
		"user manager\\containeradministrator\n",
	} {
		if !strings.Contains(strings.ToLower(out), strings.ToLower(want)) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(out, "MULLION_") {
		t.Error("the program sees our own variables")
	}
	if t.Failed() {
		t.Log(out)
	}
}
