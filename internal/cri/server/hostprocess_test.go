// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
)

// linuxHost is a HostProcesses that runs Linux programs from the image.
type linuxHost struct{ dir string }

func (linuxHost) LogOn(user, _ string) error {
	if user != system {
		return errors.New("cannot log on")
	}
	return nil
}

func (linuxHost) Main(p engine.Program) engine.Program {
	p.Env = append(slices.Clone(p.Env), "HOST=1")
	return p
}

func (linuxHost) Process(p engine.Program) oci.Process {
	env := append(slices.Clone(p.Env), "TEST_STATUS="+p.Status)
	return oci.Process{Args: p.Args, Env: env, Cwd: "/", Host: true}
}

func (h linuxHost) Make(c engine.HostContainer) error {
	if err := os.Mkdir(filepath.Join(c.Image, "run"), 0o755); err != nil {
		return err
	}
	for _, d := range []string{filepath.Join(c.Image, "run", "mullion"), c.Status, filepath.Join(h.dir, c.ID)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (h linuxHost) Remove(id string) error { return os.RemoveAll(filepath.Join(h.dir, id)) }

func (h linuxHost) Containers() []string {
	entries, _ := os.ReadDir(h.dir)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

func (linuxHost) Spec(c engine.HostContainer) oci.Config {
	return oci.Config{
		HostProcess: true,
		Rootfs:      c.Image,
		Mounts:      []oci.Mount{{Source: c.Status, Destination: "/run/mullion"}},
	}
}

func hostGuest(name, user string, args ...string) *runtime.ContainerConfig {
	c := runAs(containerConfig(name, args...), user)
	c.Windows.SecurityContext.HostProcess = true
	return c
}

// TestHostProcessCalls: the calls treat a HostProcess container like any other,
// but for its network, its root directory and its account.
func TestHostProcessCalls(t *testing.T) {
	host := linuxHost{t.TempDir()}
	l := newLabWith(t, func(c *Config) { c.HostProcesses = host })
	config := hostSandbox("agent")
	sb := l.runSandbox(config)
	if len(l.namespaces.Namespaces()) != 0 || len(l.plugins.Commands()) != 0 {
		t.Error("a host process sandbox has a network of its own")
	}
	l.wait(l.run(sb, hostGuest("env", system, "env")))
	out := l.logText(config, "env")
	if !strings.Contains(out, "HOST=1\n") || !strings.Contains(out, "TEST_STATUS=main\n") {
		t.Errorf("environment\n%s", out)
	}
	if st := l.wait(l.run(sb, hostGuest("code", system, "exit", "3000"))); st.ExitCode != 3000 {
		t.Errorf("exit code: %v", st)
	}
	id := l.run(sb, hostGuest("sleep", system, "sleep"))
	l.stop()
	orphan := filepath.Join(host.dir, strings.Repeat("a", 64))
	must(t, os.Mkdir(orphan, 0o755))
	l.start()
	if st := l.status(id); st.State != runtime.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after a restart of the runtime: %v", st)
	}
	if _, err := os.Stat(orphan); err == nil {
		t.Error("what belonged to no container is still there")
	}
	r, err := l.Runtime.ExecSync(t.Context(), &runtime.ExecSyncRequest{
		ContainerId: id,
		Cmd:         []string{"/guest", "env"},
		Timeout:     60,
	})
	must(t, err)
	if !strings.Contains(string(r.Stdout), "HOST=1\n") || !strings.Contains(string(r.Stdout), "TEST_STATUS=exec-") {
		t.Errorf("environment of exec\n%s", r.Stdout)
	}
	if held := host.Containers(); !slices.Contains(held, id) {
		t.Errorf("containers of the host: %v", held)
	}
	_, err = l.Runtime.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: sb})
	must(t, err)
	if held := host.Containers(); len(held) > 0 {
		t.Errorf("left on the host: %v", held)
	}
}

// TestHostProcessLogOn: as with other containers, an account that does not exist
// fails the start.
func TestHostProcessLogOn(t *testing.T) {
	host := linuxHost{t.TempDir()}
	l := newLabWith(t, func(c *Config) { c.HostProcesses = host })
	sb := l.runSandbox(hostSandbox("agent"))
	id := l.create(sb, hostGuest("c", "stranger", "echo"))
	_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), "cannot log on: unknown") || l.status(id).Reason != "StartError" {
		t.Errorf("%v, %v", err, l.status(id))
	}
}
