// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oci

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func web() Config {
	return Config{
		ID:       "c1",
		Hostname: "web",
		Rootfs:   "/node/cri/state/containers/c1/rootfs",
		NetNS:    "/run/netns/6e6e",
		Cgroup:   "/mullion/c/win-1/pods/s1/c1",
		Process: Process{
			Args: []string{"/usr/lib/mullion/init", "--", "ping.exe"},
			Env:  []string{"A=b"},
			Cwd:  "/",
			UID:  64000,
			GID:  64000,
		},
		Mounts: []Mount{
			{Source: "/prefix/drive_c/b", Destination: "/data/deep/er"},
			{Source: "/prefix/drive_c/a", Destination: "/data", ReadOnly: true},
		},
		Resources:   Resources{NodeCPUs: 4, CPUMaximum: 1250, MemoryBytes: 256 << 20},
		Annotations: map[string]string{"io.kubernetes.cri.container-name": "web"},
	}
}

func TestSpecGolden(t *testing.T) {
	hostProcess := web()
	hostProcess.NetNS, hostProcess.Process.Terminal, hostProcess.Resources = "", true, Resources{NodeCPUs: 4}
	hostProcess.HostProcess, hostProcess.Process.Host, hostProcess.Process.UID, hostProcess.Process.GID = true,
		true, 0, 64018
	for name, c := range map[string]Config{"container.json": web(), "host-process.json": hostProcess} {
		got, err := json.MarshalIndent(Spec(c), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, name, append(got, '\n'))
	}
}

// TestFence states what no configuration may change.
func TestFence(t *testing.T) {
	s := Spec(web())
	if len(s.Process.Capabilities.Bounding)+len(s.Process.Capabilities.Effective)+len(s.Process.Capabilities.Permitted)+
		len(s.Process.Capabilities.Inheritable)+len(s.Process.Capabilities.Ambient) != 0 {
		t.Error("capabilities")
	}
	if !s.Process.NoNewPrivileges || s.Process.User.UID == 0 {
		t.Error("privileges")
	}
	for _, want := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.MountNamespace, specs.IPCNamespace,
		specs.UTSNamespace, specs.CgroupNamespace, specs.NetworkNamespace} {
		if !slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == want }) {
			t.Errorf("no %s namespace", want)
		}
	}
	if s.Linux.Seccomp.DefaultAction != specs.ActErrno {
		t.Error("system calls are allowed by default")
	}
	calls := strings.Fields(allowed)
	for _, never := range []string{
		"mount", "umount2", "pivot_root", "chroot", "setns", "unshare", "clone", "clone3", "socket", "bpf",
		"perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "keyctl", "add_key", "request_key",
		"init_module", "finit_module", "delete_module", "kexec_load", "reboot", "swapon", "open_by_handle_at", "fsopen",
		"fsmount", "move_mount", "open_tree", "mount_setattr", "quotactl", "acct", "settimeofday", "clock_settime",
		"iopl", "ioperm", "kcmp", "lookup_dcookie", "nfsservctl", "personality", "process_madvise", "sethostname",
		"syslog", "vhangup",
	} {
		if slices.Contains(calls, never) {
			t.Errorf("system call %s is allowed without condition", never)
		}
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(calls)))); n != len(calls) {
		t.Errorf("%d calls are listed twice", len(calls)-n)
	}
	for _, m := range s.Mounts {
		if m.Destination == "/sys" || strings.HasPrefix(m.Destination, "/sys/") {
			t.Error("/sys is mounted")
		}
		if m.Type == "bind" && (!slices.Contains(m.Options, "nosuid") || !slices.Contains(m.Options, "nodev") ||
			!slices.Contains(m.Options, "rprivate")) {
			t.Errorf("mount %s has options %v", m.Destination, m.Options)
		}
	}
}

func TestResources(t *testing.T) {
	for _, tt := range []struct {
		name   string
		r      Resources
		quota  int64
		shares uint64
		cpus   string
	}{
		{"none", Resources{NodeCPUs: 2}, 0, 0, ""},
		{"whole node", Resources{NodeCPUs: 2, CPUMaximum: 10000}, 200_000, 0, ""},
		{"half of four", Resources{NodeCPUs: 4, CPUMaximum: 5000}, 200_000, 0, ""},
		{"least", Resources{NodeCPUs: 2, CPUMaximum: 1}, minQuotaMicros, 0, ""},
		{"more than all", Resources{NodeCPUs: 2, CPUMaximum: 99999}, 200_000, 0, ""},
		{"count", Resources{NodeCPUs: 8, CPUCount: 3}, 300_000, 0, ""},
		{"count above the node", Resources{NodeCPUs: 2, CPUCount: 16}, 200_000, 0, ""},
		{"maximum before count", Resources{NodeCPUs: 2, CPUMaximum: 100, CPUCount: 2}, 2000, 0, ""},
		{"middle weight", Resources{NodeCPUs: 2, CPUShares: 5000}, 0, 1024, ""},
		{"least weight", Resources{NodeCPUs: 2, CPUShares: 1}, 0, 2, ""},
		{"affinity", Resources{NodeCPUs: 70, Affinity: []Affinity{{Mask: 0b101, Group: 0}, {Mask: 1, Group: 1}}}, 0,
			0, "0,2,64"},
		{"affinity beyond the node", Resources{NodeCPUs: 2, Affinity: []Affinity{{Mask: 0xff00}}}, 0, 0, ""},
		{"no processors", Resources{CPUMaximum: 10000}, 100_000, 0, ""},
	} {
		if got := tt.r.quotaMicros(); got != tt.quota {
			t.Errorf("%s: quota %d, want %d", tt.name, got, tt.quota)
		}
		if got := tt.r.shares(); got != tt.shares {
			t.Errorf("%s: shares %d, want %d", tt.name, got, tt.shares)
		}
		if got := tt.r.cpus(); got != tt.cpus {
			t.Errorf("%s: cpus %q, want %q", tt.name, got, tt.cpus)
		}
	}
	if r := (Resources{NodeCPUs: 2}).linux(); *r.Pids.Limit != PIDs || r.Memory != nil {
		t.Errorf("defaults %+v", r)
	}
	if r := (Resources{NodeCPUs: 2, MemoryBytes: 5}).linux(); *r.Memory.Limit != 5 || *r.Memory.Swap != 5 {
		t.Errorf("memory %+v", r.Memory)
	}
}

func TestMountsNearerToTheRootComeFirst(t *testing.T) {
	var at []string
	for _, m := range Spec(web()).Mounts {
		if m.Type == "bind" {
			at = append(at, m.Destination)
		}
	}
	if !slices.Equal(at, []string{"/data", "/data/deep/er"}) {
		t.Errorf("order %v", at)
	}
}

// FuzzSpec: whatever the limits, the description stays within what the kernel
// takes.
func FuzzSpec(f *testing.F) {
	f.Add(int64(10000), int64(2), int64(5000), int64(1<<30), 2, uint64(3), uint32(0))
	f.Add(int64(-1), int64(-1), int64(-1), int64(-1), -1, ^uint64(0), ^uint32(0))
	f.Fuzz(func(t *testing.T, maximum, count, shares, memory int64, cpus int, mask uint64, group uint32) {
		cpus = min(cpus, 4096)
		r := Resources{
			NodeCPUs:    cpus,
			CPUMaximum:  maximum,
			CPUCount:    count,
			CPUShares:   shares,
			MemoryBytes: memory,
			Affinity:    []Affinity{{mask, group}},
		}
		l := r.linux()
		if l.CPU != nil {
			if q := l.CPU.Quota; q != nil && (*q < minQuotaMicros || *q > int64(max(cpus, 1))*cpuPeriodMicros) {
				t.Errorf("quota %d with %d processors", *q, cpus)
			}
			if s := l.CPU.Shares; s != nil && (*s < 2 || *s > 262144) {
				t.Errorf("shares %d", *s)
			}
		}
		if l.Memory != nil && *l.Memory.Limit <= 0 {
			t.Errorf("memory %d", *l.Memory.Limit)
		}
		c := web()
		c.Resources = r
		if _, err := json.Marshal(Spec(c)); err != nil {
			t.Error(err)
		}
	})
}
