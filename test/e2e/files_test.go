// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// messagesYAML has pods that leave messages of termination: at the default path, at
// a path of their own as an ordinary user, and in the log alone.
const messagesYAML = `
apiVersion: v1
kind: Pod
metadata: {name: default-path}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}
  restartPolicy: Never
  containers:
  - name: c
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [powershell.exe, -Command, "Set-Content -NoNewline -Path /dev/termination-log -Value DONE"]
---
apiVersion: v1
kind: Pod
metadata: {name: own-path}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}
  restartPolicy: Never
  securityContext: {windowsOptions: {runAsUserName: ContainerUser}}
  containers:
  - name: c
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [cmd.exe, /c, "echo OWN> C:\\dev\\termination-custom-log"]
    terminationMessagePath: /dev/termination-custom-log
---
apiVersion: v1
kind: Pod
metadata: {name: from-log}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}
  restartPolicy: Never
  containers:
  - name: c
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [cmd.exe, /c, "echo LOGGED& exit 1"]
    terminationMessagePolicy: FallbackToLogsOnError
`

// TestTerminationMessages: they arrive in the pod's status, from the paths of Unix
// that Kubernetes has as defaults.
func TestTerminationMessages(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.apply(t, ns, messagesYAML)
	for pod, want := range map[string]string{"default-path": "DONE", "own-path": "OWN", "from-log": "LOGGED"} {
		eventually(t, 2*time.Minute, "message of "+pod, func() error {
			got, err := c.kubectlErr(t.Context(), "get", "pod", "-n", ns, pod, "-o",
				"jsonpath={.status.containerStatuses[0].state.terminated.message}")
			if err == nil && strings.TrimSpace(got) != want {
				err = fmt.Errorf("%q, want %q", got, want)
			}
			return err
		})
	}
}

// filesYAML mounts single files where Linux has directories of its own.
const filesYAML = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Pod
metadata: {name: files}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [ping.exe, -t, localhost]
    volumeMounts:
    - {name: settings, mountPath: /dev/greeting, subPath: greeting}
    - {name: settings, mountPath: 'C:\run'}
    - {name: settings, mountPath: /proc/settings}
  volumes:
  - {name: settings, configMap: {name: settings}}
`

// volumeTime matches the directory in which the kubelet keeps the files of a ConfigMap
// (Kubernetes, pkg/volume/util/atomic_writer.go).
var volumeTime = regexp.MustCompile(`\.\.[0-9]{4}_[0-9_.]+`)

// TestFiles checks that drive C has the directories that it has on Windows, and no others.
func TestFiles(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.apply(t, ns, filesYAML)
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod/files", "--timeout=120s")
	const token = `C:\var\run\secrets\kubernetes.io\serviceaccount\token`
	indent := "\n" + strings.Repeat(" ", len(token)+1)
	// Upstream's agnhost computes the mode of a volume's file so (mounttest, on Windows).
	mode := `$a = Get-Acl ` + token + `; $u = $g = $o = 0; foreach ($r in $a.Access) { ` +
		`$n = $r.FileSystemRights.value__; $m = 0; if (($n -band 0x81) -eq 0x81) { $m += 4 }; ` +
		`if (($n -band 0x116) -eq 0x116) { $m += 2 }; ` +
		`if (($n -band 0x21) -eq 0x21) { $m += 1 }; $i = $r.IdentityReference.Value; ` +
		`if ($i.Equals($a.Owner)) { $u = $m }; if ($i.Equals($a.Group)) { $g = $m }; ` +
		`if ($i.ToLower().Contains('users')) { $o = $m } }; "0$u$g$o"`
	for _, row := range []struct {
		command []string
		want    string
	}{
		{[]string{"cmd.exe", "/c", `type C:\dev\greeting`}, "hello"},
		{[]string{"cmd.exe", "/c", `type C:\run\greeting& dir /b C:\proc\settings`},
			"hello..TIME\n..data\ngreeting"},
		{[]string{"powershell.exe", "-Command", `Get-Content /proc/settings/greeting`}, "hello"},
		{[]string{"cmd.exe", "/c", `dir /b C:\dev`}, "greeting\ntermination-log"},
		// What an image of Server Core has, and the places of the mounts. ProgramData
		// is hidden.
		{[]string{"cmd.exe", "/c", `dir /b C:\`},
			"dev\nLicense.txt\nproc\nProgram Files\nProgram Files (x86)\nrun\nUsers\nvar\nWindows"},
		{[]string{"powershell.exe", "-Command", `(Get-ChildItem C:\).Name -join ' '`},
			"dev proc Program Files Program Files (x86) run Users var Windows License.txt"},
		// kubernetes.io, "Projected Volumes": SecurityContext interactions, Windows.
		{[]string{"icacls.exe", token}, token + ` NT AUTHORITY\SYSTEM:(I)(F)` +
			indent + `BUILTIN\Administrators:(I)(F)` + indent + `BUILTIN\Users:(I)(RX)` +
			"\n\nSuccessfully processed 1 files; Failed processing 0 files"},
		{[]string{"powershell.exe", "-Command", "(Get-Acl " + token + ").Sddl"},
			"O:BAG:SYD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;0x1200a9;;;BU)"},
		{[]string{"powershell.exe", "-Command", mode}, "0775"},
		// What is set stays, for other programs too.
		{[]string{"cmd.exe", "/c", `md C:\app`}, ""},
		{[]string{"icacls.exe", `C:\app`, "/grant", "ContainerUser:(OI)(CI)M"},
			"processed file: C:\\app\nSuccessfully processed 1 files; Failed processing 0 files"},
		{[]string{"powershell.exe", "-Command", `Set-Content C:\app\file x; (Get-Acl C:\app\file).AccessToString`},
			`User Manager\ContainerUser Allow  Modify, Synchronize` + "\n" +
				`BUILTIN\Administrators Allow  FullControl` + "\n" + `NT AUTHORITY\SYSTEM Allow  FullControl` + "\n" +
				`BUILTIN\Users Allow  ReadAndExecute, Synchronize`},
	} {
		got := c.kubectl(t, append([]string{"exec", "-n", ns, "files", "--"}, row.command...)...)
		got = volumeTime.ReplaceAllString(strings.ReplaceAll(got, "\r\n", "\n"), "..TIME")
		if got = strings.TrimSpace(got); got != row.want {
			t.Errorf("%q prints %q, want %q", row.command, got, row.want)
		}
	}
	// One file of a volume is in use while a container starts, and no longer. (kubelet.exe leaves files open
	// where a container has several mounts with a subPath: makeMounts of pkg/kubelet/kubelet_pods.go keeps the
	// last clean-up only.)
	c.kubectl(t, "delete", "pod", "files", "-n", ns, "--timeout=180s")
}
