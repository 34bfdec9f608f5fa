// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestRequest asks a program that misses the first request, one that notices it, and one that has ended.
func TestRequest(t *testing.T) {
	dir := t.TempDir()
	start := func(script string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command("sh", "-c", script, "sh", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	late := start(`trap 'exit 7' INT; touch "$1/ready"; while :; do sleep 0.1; done`)
	noticed, ended := start("sleep 60"), start("exit 0")
	defer func() { _ = noticed.Wait() }()
	defer func() { _ = noticed.Process.Kill() }() // it waits for longer than the test
	_ = ended.Wait()                              // with 0
	name := filepath.Join(dir, stopNoticed+strconv.Itoa(noticed.Process.Pid))
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the program", func() bool {
		_, err := os.Stat(filepath.Join(dir, "ready"))
		return err == nil
	})

	r := newRequest([]int{late.Process.Pid, noticed.Process.Pid, ended.Process.Pid})
	<-r.again
	r.repeat(dir)
	if len(r.programs) != 1 || r.programs[0] != late.Process.Pid || r.again == nil {
		t.Errorf("asked %v, want %d", r.programs, late.Process.Pid)
	}
	if err := late.Wait(); late.ProcessState.ExitCode() != 7 {
		t.Errorf("the program that missed the first request: %v", err)
	}
	r.repeat(dir)
	if len(r.programs) != 0 || r.again != nil {
		t.Errorf("asks %v once more", r.programs)
	}
	if !r.made() {
		t.Error("a second request of the server would be a new one")
	}
	if r.pause > longestPause || r.pause <= firstPause {
		t.Errorf("pauses for %s", r.pause)
	}
}

func TestCodeOfRequest(t *testing.T) {
	var none request
	asked := newRequest([]int{1})
	for _, row := range []struct {
		r    request
		end  exit
		want uint32
	}{
		{none, exit{130, true}, 130},
		{asked, exit{130, true}, controlCExit},
		{asked, exit{7, false}, 7},
	} {
		if got := row.r.code(row.end); got != row.want {
			t.Errorf("%+v: %d, want %d", row.end, got, row.want)
		}
	}
}
