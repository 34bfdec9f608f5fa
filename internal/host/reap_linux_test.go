// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"os/exec"
	"testing"
)

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
