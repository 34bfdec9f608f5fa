// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
)

// TestTheAgentTakesItsConfiguration loads what we write as the agent does.
func TestTheAgentTakesItsConfiguration(t *testing.T) {
	doc, err := json.Marshal(agentConfig(testConfig("/x"), "sha256:"+strings.Repeat("0", 64)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent.json")
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := agent.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Runtime.Endpoint != "tcp://127.0.0.1:10271" || c.Node.Name != "win-1" || c.Cluster.NodeCIDRs[0].String() != "10.89.0.0/24" {
		t.Errorf("%+v", c)
	}
}

func TestOnDisk(t *testing.T) {
	if got := onDisk(`C:\Program Files\mullion\mullion.exe`); got != "/prefix/drive_c/Program Files/mullion/mullion.exe" {
		t.Error(got)
	}
}

func TestZombies(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := false
	for !found {
		for _, pid := range zombies() {
			found = found || pid == cmd.Process.Pid
		}
		if t.Context().Err() != nil {
			t.Fatal("the dead child was not found")
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("looking at it took its exit status: %v", err)
	}
}
