// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/mullion-k8s/mullion/internal/cluster"
)

// TestEnter brings a cluster up again and again, with and without --kubeconfig: what
// the user once chose holds for the next start.
func TestEnter(t *testing.T) {
	dir := t.TempDir()
	home, other := filepath.Join(dir, "home"), filepath.Join(dir, "other")
	t.Setenv("KUBECONFIG", home)
	t.Setenv("SUDO_UID", "")
	l := cluster.Layout{DataDir: filepath.Join(dir, "data"), Name: "x"}
	if err := os.MkdirAll(l.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	admin := api.NewConfig()
	admin.Clusters["c"] = &api.Cluster{Server: "https://127.0.0.1:6443"}
	admin.AuthInfos["u"] = &api.AuthInfo{Token: "t"}
	admin.Contexts["admin"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	admin.CurrentContext = "admin"
	if err := clientcmd.WriteToFile(*admin, l.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		down            bool
		kubeconfig      string
		inHome, inOther bool
	}{
		{kubeconfig: noKubeconfig},
		{kubeconfig: ""}, // mullion start
		{down: true},
		{kubeconfig: ""},
		{kubeconfig: other, inOther: true},
		{kubeconfig: "", inOther: true},
		{down: true},
		{kubeconfig: "", inOther: true},
		{kubeconfig: home, inHome: true},
		{down: true, kubeconfig: noKubeconfig, inHome: true},
		{down: true, kubeconfig: other, inHome: true},
		{down: true, kubeconfig: home},
	} {
		if step.down {
			if _, err := removeContext(t.Context(), l, step.kubeconfig); err != nil {
				t.Fatal(err)
			}
		} else if _, err := enter(t.Context(), l, step.kubeconfig); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]bool{home: step.inHome, other: step.inOther} {
			config := api.NewConfig()
			if _, err := os.Stat(path); err == nil {
				if config, err = clientcmd.LoadFromFile(path); err != nil {
					t.Fatal(err)
				}
			}
			if got := config.Contexts[contextName(l)] != nil; got != want {
				t.Errorf("%+v: context in %s: %v", step, filepath.Base(path), got)
			}
		}
	}
}
