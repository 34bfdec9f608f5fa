// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/cgroup"
)

// Size describes the machine that programs of a host see.
type Size struct {
	// CPUs are the numbers of the processors, numbered as on the machine.
	CPUs        []int `json:"cpus"`
	MemoryBytes int64 `json:"memoryBytes"`
}

// sizeOf returns the size of a host that has these limits.
func sizeOf(m Machine, own cgroup.Limits) Size {
	s := Size{CPUs: m.CPUs, MemoryBytes: min(own.MemoryBytes, m.MemoryBytes)}
	if n := processors(own.MilliCPU); n > 0 && n < len(m.CPUs) {
		s.CPUs = m.CPUs[:n]
	}
	return s
}

// processors returns how many processors have this much time.
func processors(milliCPU int64) int { return int((milliCPU + 999) / 1000) }

// cpuLimits returns limits that hold a host to the processors of its size. Quota
// selects the method: a quota of processor time, with which the host's programs run on
// all processors of the machine, or a fixed set of processors. Version 1 of cgroups
// refuses a pod with a quota above its host's, which Linux nodes allow; Wine cannot
// work with processors that do not begin at 0. The turn spreads hosts over the machine.
func cpuLimits(own cgroup.Limits, m Machine, s Size, pin bool, turn int) (cgroup.Limits, Size) {
	n := len(s.CPUs)
	if n == len(m.CPUs) {
		own.MilliCPU = 0 // all of them: no limit is necessary
		return own, s
	}
	if !pin {
		return own, s
	}
	own.MilliCPU = 0
	var mine []int
	for i := range n {
		mine = append(mine, m.CPUs[(turn*n+i)%len(m.CPUs)])
	}
	slices.Sort(mine)
	s.CPUs, own.CPUs = mine, cpuList(mine)
	return own, s
}

// cpuList writes sorted numbers as the kernel does: "0-1,4".
func cpuList(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		end := i
		for end+1 < len(cpus) && cpus[end+1] == cpus[end]+1 {
			end++
		}
		part := strconv.Itoa(cpus[i])
		if end > i {
			part += "-" + strconv.Itoa(cpus[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ",")
}

// sizeDir holds the files that show the size, on a file system of the host's own.
const sizeDir = "/run/size"

// sizeFile is a file of the kernel that another one lies over.
type sizeFile struct {
	target string // of the kernel
	text   string // "" at first for files that follow the host's use
}

// name returns the path of the file in sizeDir.
func (f sizeFile) name() string { return path.Join(sizeDir, path.Base(f.target)) }

// Names of the files that follow the host's use.
const (
	meminfoFile = "/proc/meminfo"
	statFile    = "/proc/stat"
	cpuinfoFile = "/proc/cpuinfo"
)

// describeSize lists the files that show a host's size. The content of the machine's
// /proc/cpuinfo is given.
func describeSize(s Size, cpuinfo string) []sizeFile {
	list := cpuList(s.CPUs) + "\n"
	const cpu = "/sys/devices/system/cpu/"
	return []sizeFile{
		{target: meminfoFile},
		{target: statFile},
		{target: cpuinfoFile, text: onlyCPUs(cpuinfo, s.CPUs)},
		{target: cpu + "online", text: list},
		{target: cpu + "present", text: list},
		{target: cpu + "possible", text: list},
	}
}

// onlyCPUs keeps the paragraphs of /proc/cpuinfo that describe the processors.
func onlyCPUs(cpuinfo string, cpus []int) string {
	var out strings.Builder
	for paragraph := range strings.SplitAfterSeq(cpuinfo, "\n\n") {
		first, _, _ := strings.Cut(paragraph, "\n")
		name, value, _ := strings.Cut(first, ":")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if strings.TrimSpace(name) == "processor" && err == nil && !slices.Contains(cpus, n) {
			continue
		}
		out.WriteString(paragraph)
	}
	return out.String()
}

// meminfo writes /proc/meminfo of a host: its cgroup may still have the free
// memory, and can drop the cache of files. Numbers have a fixed width, so that the file can be
// written while others read it.
func meminfo(s Size, u cgroup.Usage) string {
	total := uint64(max(s.MemoryBytes, 0))
	used := min(u.MemoryBytes, total)
	free := total - used
	cache := min(u.InactiveBytes+u.ActiveFileBytes, used)
	var b strings.Builder
	for _, line := range []struct {
		name  string
		bytes uint64
	}{
		{"MemTotal", total}, {"MemFree", free}, {"MemAvailable", free + cache}, {"Buffers", 0}, {"Cached", cache},
		{"SwapCached", 0}, {"Active", used - min(u.InactiveBytes, used)}, {"Inactive", min(u.InactiveBytes, used)},
		{"SwapTotal", 0}, {"SwapFree", 0}, {"CommitLimit", total}, {"Committed_AS", used - cache},
	} {
		fmt.Fprintf(&b, "%-15s %12d kB\n", line.name+":", line.bytes>>10)
	}
	for _, name := range []string{"HugePages_Total", "HugePages_Free"} {
		fmt.Fprintf(&b, "%s: %12d\n", name, 0)
	}
	fmt.Fprintf(&b, "%-15s %12d kB\n", "Hugepagesize:", 2048)
	return b.String()
}

// tick is the unit of /proc/stat on amd64.
const tick = time.Second / 100

// cpuTime counts the processor time of a host since its boot.
type cpuTime struct{ busy, idle time.Duration }

// add counts time that has passed, of which the host's programs used some on its
// processors. Idle time never shrinks: quotas are kept on average only.
func (t *cpuTime) add(cpus int, passed time.Duration, usedNanos uint64) {
	used := time.Duration(usedNanos)
	t.busy += used
	t.idle += max(passed*time.Duration(cpus)-used, 0)
}

// stat writes /proc/stat of a host, with its time divided among its processors evenly:
// cgroups count it for all together. boot is the machine's line "btime".
func stat(s Size, t cpuTime, boot string) string {
	n := time.Duration(max(len(s.CPUs), 1))
	var b strings.Builder
	line := func(name string, busy, idle time.Duration) {
		fmt.Fprintf(&b, "%-6s %12d 0 0 %12d 0 0 0 0 0 0\n", name, busy/tick, idle/tick)
	}
	line("cpu", t.busy, t.idle)
	for _, cpu := range s.CPUs {
		line("cpu"+strconv.Itoa(cpu), t.busy/n, t.idle/n)
	}
	return b.String() + "intr 0\nctxt 0\n" + boot + "\nprocesses 0\nprocs_running 1\nprocs_blocked 0\n"
}
