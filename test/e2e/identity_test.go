// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

// startLimit is above what the slowest pod on a loaded machine needed.
const startLimit = 2 * time.Minute

var errNotYet = errors.New("not yet")

// TestRunAsUserName is Kubernetes' own test for Windows
// (test/e2e/windows/security_context.go), and what it leaves out.
func TestRunAsUserName(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	const core, nano = "mcr.microsoft.com/windows/servercore:ltsc2019", "mcr.microsoft.com/windows/nanoserver:1809"
	// The container's user counts more than the pod's, the pod's more than the image's.
	c.pod(t, ns, "users", onNode+`
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  securityContext: {windowsOptions: {runAsUserName: ContainerUser}}
  containers:
  - {name: pod, image: "`+core+`", command: [cmd, /S, /C, "whoami & echo %username% & ping -n 1000 localhost"]}
  - {name: container, image: "`+nano+`", command: [cmd, /S, /C, "whoami & echo %username%"],
      securityContext: {windowsOptions: {runAsUserName: CONTAINERADMINISTRATOR}}}
  - {name: service, image: "`+core+`", command: [cmd, /S, /C, "whoami & echo %username%"],
     securityContext: {windowsOptions: {runAsUserName: 'NT AUTHORITY\NETWORK SERVICE'}}}`)
	c.pod(t, ns, "images", onNode+`
  restartPolicy: Never
  containers:
  - {name: core, image: "`+core+`", command: [cmd, /S, /C, "whoami & echo %username%"]}
  - {name: nano, image: "`+nano+`", command: [cmd, /S, /C, "whoami & echo %username%"]}`)
	for _, tt := range []struct{ pod, container, want string }{
		{"users", "pod", `user manager\containeruser ContainerUser`},
		{"users", "container", `user manager\containeradministrator ContainerAdministrator`},
		{"users", "service", `nt authority\network service USERS$`},
		{"images", "core", `user manager\containeradministrator ContainerAdministrator`},
		{"images", "nano", `user manager\containeruser ContainerUser`},
	} {
		eventually(t, startLimit, tt.container, func() error {
			out, err := c.kubectlErr(t.Context(), "logs", "-n", ns, tt.pod, "-c", tt.container)
			if err == nil && len(strings.Fields(out)) < len(strings.Fields(tt.want)) {
				err = errNotYet
			}
			return err
		})
		out := strings.Join(strings.Fields(c.kubectl(t, "logs", "-n", ns, tt.pod, "-c", tt.container)), " ")
		if !strings.HasPrefix(out, tt.want) {
			t.Errorf("%s/%s: %q, want %q", tt.pod, tt.container, out, tt.want)
		}
	}
	if out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "users", "-c", "pod", "--", "whoami"); err != nil ||
		strings.TrimSpace(out) != `user manager\containeruser` {
		t.Errorf("exec: %q, %v", out, err)
	}

	// Unknown: a pod's user fails the sandbox, a container's the container.
	c.pod(t, ns, "foolish-pod", onNode+`
  securityContext: {windowsOptions: {runAsUserName: FooLish}}
  containers: [{name: main, image: "`+core+`", command: [cmd, /c, ver]}]`)
	c.event(t, ns, "foolish-pod", "The user name or password is incorrect.")
	c.pod(t, ns, "foolish-container", onNode+`
  restartPolicy: Never
  containers: [{name: main, image: "`+core+`", command: [cmd, /c, ver],
    securityContext: {windowsOptions: {runAsUserName: FooLish}}}]`)
	c.until(t, ns, "foolish-container", "{.status.containerStatuses[0].state.terminated.reason}", "StartError",
		"ContainerCannotRun")
}

// TestRunAsNonRoot: the kubelet's own check, with what it lets pass
// (pkg/kubelet/kuberuntime/security_context_windows.go; CVE-2021-25749).
func TestRunAsNonRoot(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	// The webhooks would refuse some of these before a kubelet sees them.
	c.kubectl(t, "label", "namespace", ns, "admission.mullion.dev/disabled=true")
	const core, nano = "mcr.microsoft.com/windows/servercore:ltsc2019", "mcr.microsoft.com/windows/nanoserver:1809"
	for _, tt := range []struct{ name, image, user string }{
		{"by-name", core, "ContainerAdministrator"}, {"by-case", core, "containeradministrator"},
		{"user", core, "ContainerUser"}, {"nano", nano, ""},
		// The user comes from the image, so the kubelet cannot reject it: use runAsUserName.
		{"trap", core, ""}, {"system", core, `NT AUTHORITY\SYSTEM`},
	} {
		user := ""
		if tt.user != "" {
			user = `, windowsOptions: {runAsUserName: '` + tt.user + `'}`
		}
		c.pod(t, ns, tt.name, onNode+`
  restartPolicy: Never
  securityContext: {runAsNonRoot: true`+user+`}
  containers: [{name: main, image: "`+tt.image+`", command: [whoami]}]`)
	}
	for name, refused := range map[string]bool{"by-name": true, "by-case": true, "user": false, "nano": false,
		"trap": false, "system": false} {
		if refused {
			c.until(t, ns, name, "{.status.containerStatuses[0].state.waiting.reason}", "CreateContainerConfigError")
			if msg := c.get(t, ns, name, "{.status.containerStatuses[0].state.waiting.message}"); !strings.Contains(msg,
				"will break non-root policy") {
				t.Errorf("%s: %q", name, msg)
			}
			continue
		}
		c.until(t, ns, name, "{.status.phase}", "Succeeded")
	}
	for name, want := range map[string]string{"user": `containeruser`, "nano": `containeruser`,
		"trap": `containeradministrator`, "system": `nt authority\\system`} {
		if out := c.kubectl(t, "logs", "-n", ns, name); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s runs as %q", name, out)
		}
	}
}
