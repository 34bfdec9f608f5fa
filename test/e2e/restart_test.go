// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const restartYAML = `
apiVersion: v1
kind: Pod
metadata: {name: kept}
spec:
  os: {name: windows}
  nodeName: win-1
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [cmd.exe, /c,
      '(if not exist C:\data\first echo written once> C:\data\first) & echo x>> C:\layer & ping.exe -t localhost > nul']
    volumeMounts: [{name: data, mountPath: 'C:\data'}, {name: host, mountPath: 'C:\host'}]
  volumes:
  - {name: data, emptyDir: {}}
  - {name: host, hostPath: {path: 'C:\shared', type: DirectoryOrCreate}}
`

// TestRestart stops a cluster with a pod in it in each way that there is, and
// starts it again: the pod is back, as it is after a reboot of a Windows node,
// with the same identity and volumes and a new container.
func TestRestart(t *testing.T) {
	dir := ownCluster(t)
	s := newSingle(t, "restarted", dir, 21)
	s.mullion("up")
	s.applyPod(restartYAML)
	last := -1
	// back waits for a container that was started since the last time. A kubelet
	// that is killed a moment after its containers may have started another first,
	// so more than one restart is allowed.
	back := func() {
		t.Helper()
		eventually(t, 60*time.Second, "the pod runs", func() error {
			out, err := s.command(t.Context(), "kubectl", "get", "pod", "kept", "-o",
				"jsonpath={.status.containerStatuses[0].ready} {.status.containerStatuses[0].restartCount}").Output()
			if err != nil {
				return err
			}
			var ready bool
			var restarts int
			if _, err := fmt.Sscan(string(out), &ready, &restarts); err != nil || !ready || restarts <= last {
				return fmt.Errorf("ready and restarts: %q, want true and more than %d", out, last)
			}
			last = restarts
			return nil
		})
	}
	inside := func(command string) string {
		return strings.TrimSpace(s.mullion("kubectl", "exec", "kept", "--", "cmd.exe", "/c", command))
	}
	identity := func() string { return s.mullion("kubectl", "get", "pod", "kept", "-o", "jsonpath={.metadata.uid}") }
	back()
	uid := identity()
	inside(`echo host> C:\host\file`)
	routes := s.routes()

	for _, tc := range []struct {
		name string
		stop func()
	}{
		{"down", func() { s.mullion("down") }},
		{"everything killed at once", s.killAll},
		{"machine rebooted", func() { s.killAll(); s.forgetKernel() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.stop()
			s.mullion("up")
			back()
			if now := identity(); now != uid {
				t.Errorf("it is another pod now: %s, before %s", now, uid)
			}
			if got := inside(`type C:\data\first`) + ", " + inside(`type C:\host\file`); got != "written once, host" {
				t.Errorf("the volumes hold %q", got)
			}
			// A new container begins with the image's files.
			if got := inside(`type C:\layer`); strings.Count(got, "x") != 1 {
				t.Errorf("the container's own file holds %q", got)
			}
			if got := routes(); got != "10.89.0.77" {
				t.Errorf("the host has routes by %q, want the persistent one", got)
			}
			if got := s.addresses(); len(got) != 1 {
				t.Errorf("addresses of one pod: %q", got)
			}
		})
	}
	s.mullion("down", "--purge")
	s.traces().none(t, "in the end")
}

// routes gives the host a route for this boot and a persistent one. The function
// that it returns lists their next hops.
func (s single) routes() func() string {
	s.t.Helper()
	s.applyPod("apiVersion: v1\nkind: Pod\nmetadata: {name: router}\nspec:\n  " + hostProcess(`NT AUTHORITY\SYSTEM`) +
		routerYAML)
	shell := func(script string) string {
		s.t.Helper()
		var out string
		eventually(s.t, 60*time.Second, "the host process container runs", func() error {
			b, err := s.command(s.t.Context(), "kubectl", "exec", "router", "--",
				"powershell", "-NoProfile", "-Command", script).Output()
			out = strings.TrimSpace(string(b))
			return err
		})
		return out
	}
	const add = "New-NetRoute -ifIndex (Get-NetRoute 0.0.0.0/0).ifIndex -DestinationPrefix "
	shell(add + "10.77.0.0/16 -NextHop 10.89.0.77 | Out-Null")
	shell(add + "10.78.0.0/16 -NextHop 10.89.0.78 -PolicyStore ActiveStore | Out-Null")
	return func() string {
		s.t.Helper()
		return shell("(Get-NetRoute | Where { $_.NextHop -like '10.89.0.7*' }).NextHop -join ' '")
	}
}

// addresses are those that the node's address management has given out.
func (s single) addresses() []string {
	dir := filepath.Join(hostRoot(filepath.Join(s.dir(), "run", "win-1.json")), "prefix", "drive_c", "var",
		"lib", "cni", "networks", "cbr0")
	found, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// killAll kills every process of the cluster with -9, as the machine's end
// does, and waits until they have gone.
func (s single) killAll() {
	s.t.Helper()
	for first := true; ; first = false {
		pids := s.processes()
		if len(pids) == 0 {
			if first {
				s.t.Fatal("the cluster has no process")
			}
			return
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				s.t.Fatal(err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// processes of the cluster: the supervisor and the parents of the hosts are
// known by their arguments, everything else descends from them.
func (s single) processes() []int {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	parents, ours := map[int]int{}, map[int]bool{}
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			s.t.Fatal(err)
		}
		cmdline, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err != nil {
			continue // it has gone
		}
		stat, err := os.ReadFile(filepath.Join(d, "stat"))
		if err != nil {
			continue
		}
		// PID (name, with anything in it) state parent …
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" {
			continue
		}
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			s.t.Fatal(err)
		}
		argv := strings.ReplaceAll(string(cmdline), "\x00", " ")
		if strings.Contains(argv, s.dir()) ||
			strings.Contains(argv, "cluster run --name "+s.name+" --data-dir "+s.dataDir) {
			ours[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if ours[parent] && !ours[pid] {
				ours[pid], grown = true, true
			}
		}
	}
	var pids []int
	for pid := range ours {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// forgetKernel takes away what the kernel of a machine forgets when it starts:
// mounts, links, cgroups. Files stay as they are.
func (s single) forgetKernel() {
	s.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if point := strings.Fields(line)[4]; strings.Contains(point, s.dir()) {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
				s.t.Fatalf("unmount %s: %v", point, err)
			}
		}
	}
	// It is gone already if the network namespace of its other end is.
	_ = exec.Command("ip", "link", "delete", fmt.Sprintf("mln%d", s.index)).Run()
	var groups []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(p+"/", "/mullion/"+s.name+"/") {
			groups = append(groups, p)
		}
		return nil
	})
	slices.Reverse(groups) // children first
	for _, g := range groups {
		if err := syscall.Rmdir(g); err != nil && err != syscall.ENOENT {
			s.t.Logf("remove cgroup %s: %v", g, err)
		}
	}
}
