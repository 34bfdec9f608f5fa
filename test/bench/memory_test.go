// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// memory tells how much a cluster holds, in MB (1e6 bytes), as proportional set size: shared
// pages are divided among those who share them.
type memory struct {
	server    float64
	nodes     map[string]float64
	flanneld  float64 // the sum of all flanneld.exe
	processes int     // of the nodes
}

// settled measures a cluster that does nothing, after half a minute.
func (c cluster) settled(nodes ...string) memory {
	c.b.Helper()
	time.Sleep(30 * time.Second)
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.b.Fatal(err)
	}
	in := map[string]string{}
	for _, n := range nodes {
		in[namespace(c.initPID(n))] = n
	}
	held := memory{nodes: map[string]float64{}}
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		text := strings.ReplaceAll(string(cmdline), "\x00", " ")
		if strings.Contains(text, "mullion-kube server") && strings.Contains(text, c.dir) {
			held.server += pss(pid)
		}
		node := in[namespace(pid)]
		for _, n := range nodes {
			if strings.Contains(text, "host --config "+c.run(n+"-config.json")) {
				node = n // the program outside of the host that runs it
			}
		}
		if node == "" {
			continue
		}
		held.processes++
		held.nodes[node] += pss(pid)
		if program, _, _ := strings.Cut(text, " --"); strings.HasSuffix(program, "flanneld.exe") {
			held.flanneld += pss(pid)
		}
	}
	return held
}

// programs returns the processes of win-1 whose command line has a part, without those that only start it.
func (c cluster) programs(part string) (pids []int) {
	c.b.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.b.Fatal(err)
	}
	there := namespace(c.initPID("win-1"))
	for _, d := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(d, "cmdline"))
		argv := strings.Split(string(cmdline), "\x00")
		if err != nil || !slices.ContainsFunc(argv[:min(3, len(argv))], func(s string) bool {
			return strings.HasSuffix(s, part)
		}) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && namespace(pid) == there {
			pids = append(pids, pid)
		}
	}
	return pids
}

// namespace returns the PID namespace that a process lives in.
func namespace(pid int) string {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return "gone"
	}
	return link
}

// pss of a process in MB (1e6 bytes); 0 if it has gone.
func pss(pid int) float64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				return 0
			}
			return kib * 1024 / 1e6
		}
	}
	return 0
}
