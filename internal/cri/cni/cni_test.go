// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cni

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/cni/cnitest"
)

const conf = `{"cniVersion":"0.3.0","name":"cbr0","type":"win-bridge","apiVersion":2,"ipam":{"type":"host-local"},` +
	`"capabilities":{"portMappings":true,"dns":true}}`

// drive makes a drive C with a plugin and, unless it is empty, a configuration.
func drive(t *testing.T, conf string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		full := filepath.Join(dir, "Program Files", "containerd", "cni", name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("bin/win-bridge.exe", "MZ")
	if conf != "" {
		write("conf/10-mullion.conf", conf)
		write("conf/99-other.conf", "nonsense that must not be read")
	}
	return dir
}

// recorder notes what the plugin got.
type recorder struct {
	cnitest.Fake
	exe   string
	env   []string
	stdin string
}

func (r *recorder) RunPlugin(ctx context.Context, exe string, env []string, stdin []byte) ([]byte, []byte, error) {
	r.exe, r.env, r.stdin = exe, slices.Clone(env), string(stdin)
	return r.Fake.RunPlugin(ctx, exe, env, stdin)
}

func TestSetupAndTeardown(t *testing.T) {
	r := &recorder{}
	n := New(Config{Drive: drive(t, "\ufeff"+conf), CacheDir: t.TempDir(), Runner: r})
	if err := n.Ready(); err != nil {
		t.Fatal(err)
	}
	pod := Pod{
		SandboxID:   "sb1",
		NamespaceID: "6e6e0f6c-1111-2222-3333-444444444444",
		Namespace:   "ns",
		Name:        "web",
		UID:         "u1",
		Ports:       []PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}},
		DNS:         DNS{Servers: []string{"10.96.0.10"}},
	}
	ips, err := n.Setup(t.Context(), pod)
	if err != nil || len(ips) != 1 || ips[0].String() != "10.244.0.2" {
		t.Fatalf("addresses %v, %v", ips, err)
	}
	if r.exe != `C:\Program Files\containerd\cni\bin\win-bridge.exe` {
		t.Errorf("ran %s", r.exe)
	}
	for _, want := range []string{
		"CNI_COMMAND=ADD", "CNI_CONTAINERID=sb1", "CNI_NETNS=6e6e0f6c-1111-2222-3333-444444444444", "CNI_IFNAME=eth0",
		`CNI_PATH=C:\Program Files\containerd\cni\bin`,
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=sb1;K8S_POD_UID=u1",
	} {
		if !slices.Contains(r.env, want) {
			t.Errorf("environment lacks %q: %q", want, r.env)
		}
	}
	if slices.ContainsFunc(r.env, func(e string) bool { return !strings.HasPrefix(e, "CNI_") }) {
		t.Errorf("environment has more than CNI's: %q", r.env)
	}
	for _, want := range []string{`"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]`,
		`"dns":{"servers":["10.96.0.10"]}`} {
		if !strings.Contains(r.stdin, want) {
			t.Errorf("configuration lacks %s: %s", want, r.stdin)
		}
	}
	// The configuration vanishes; the pod can still go.
	if err := os.RemoveAll(filepath.Join(n.cfg.Drive, "Program Files/containerd/cni/conf")); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(); !errors.Is(err, errNotConfigured) {
		t.Errorf("ready without configuration: %v", err)
	}
	if err := n.Teardown(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if held := r.Held(); len(held) != 0 {
		t.Errorf("still held: %v", held)
	}
}

func TestPluginErrorIsPassedOn(t *testing.T) {
	f := &cnitest.Fake{Fail: func(string) error { return errors.New("no more addresses") }}
	n := New(Config{Drive: drive(t, conf), CacheDir: t.TempDir(), Runner: f})
	_, err := n.Setup(t.Context(), Pod{SandboxID: "sb1", NamespaceID: "x"})
	if err == nil || !strings.Contains(err.Error(), "no more addresses") ||
		!strings.Contains(err.Error(), `type="win-bridge"`) {
		t.Errorf("error %v", err)
	}
}

func TestNotReady(t *testing.T) {
	for name, content := range map[string]string{"none": "", "broken": "{",
		"no type":    `{"cniVersion":"0.3.0","name":"x"}`,
		"no plugins": `{"cniVersion":"0.3.0","name":"x","plugins":[]}`} {
		n := New(Config{Drive: drive(t, content), CacheDir: t.TempDir(), Runner: &cnitest.Fake{}})
		if err := n.Ready(); !errors.Is(err, errNotConfigured) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
