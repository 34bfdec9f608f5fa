// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestUnknownUser: Kubernetes' own end-to-end test wants a pod's unknown user to
// fail the sandbox, and a container's to fail the container's start
// (test/e2e/windows/security_context.go).
func TestUnknownUser(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("web")
	config.Windows = &runtime.WindowsPodSandboxConfig{SecurityContext: &runtime.WindowsSandboxSecurityContext{
		RunAsUsername: "FooLish"}}
	_, err := l.Runtime.RunPodSandbox(t.Context(), &runtime.RunPodSandboxRequest{Config: config})
	if err == nil || !strings.Contains(err.Error(), "hcs::System::CreateProcess") ||
		!strings.Contains(err.Error(), "The user name or password is incorrect.") {
		t.Errorf("pod: %v", err)
	}
	sb := l.runSandbox(sandboxConfig("good"))
	id := l.create(sb, runAs(containerConfig("c", "echo", "x"), `DOMAIN\FooLish`))
	_, err = l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), "The user name or password is incorrect.") {
		t.Errorf("container: %v", err)
	}
	if got := l.status(id); got.Reason != "StartError" || got.ExitCode != 128 ||
		!strings.Contains(got.Message, "The user name or password is incorrect.") {
		t.Errorf("%v", got)
	}
}
