// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// useEvery is how often the files follow the host's use. Kubelets look every ten
// seconds.
const useEvery = time.Second

// SizeFiles returns the files that show the size, by the path in /proc that they
// cover. Containers have their own /proc.
func SizeFiles() map[string]string {
	out := map[string]string{}
	for _, target := range []string{meminfoFile, statFile, cpuinfoFile} {
		out[target] = sizeFile{target: target}.name()
	}
	return out
}

// shown are the files that show a host's size to its programs.
type shown struct {
	size          Size
	group         cgroup.Group
	meminfo, stat *os.File
	boot          string // the line of /proc/stat

	time  cpuTime
	nanos uint64 // processor time so far
	at    time.Time
	told  bool // that something failed
}

// ShowSize puts files over the kernel's files with the size of the machine, and lets
// them follow the use of the host's cgroup until the context ends. Process 1 calls it
// in the host's root.
func ShowSize(ctx context.Context, s Size, hs cgroup.Hierarchies) error {
	cpuinfo, err := os.ReadFile(cpuinfoFile)
	if err != nil {
		return fmt.Errorf("show size of the host: %w", err)
	}
	machine, err := os.ReadFile(statFile)
	if err != nil {
		return fmt.Errorf("show size of the host: %w", err)
	}
	h := &shown{size: s, group: hs.Group("/"), boot: "btime 0", at: time.Now()}
	for line := range strings.Lines(string(machine)) {
		if strings.HasPrefix(line, "btime ") {
			h.boot = strings.TrimSpace(line)
		}
	}
	if err := h.make(describeSize(s, string(cpuinfo))); err != nil {
		return fmt.Errorf("show size of the host: %w", err)
	}
	go h.follow(ctx)
	return nil
}

// make writes the files and mounts them.
func (h *shown) make(files []sizeFile) error {
	if err := os.MkdirAll(sizeDir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(f.name(), []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	var err error
	if h.meminfo, err = os.OpenFile(sizeFile{target: meminfoFile}.name(), os.O_WRONLY, 0); err != nil {
		return err
	}
	if h.stat, err = os.OpenFile(sizeFile{target: statFile}.name(), os.O_WRONLY, 0); err != nil {
		return err
	}
	h.failed(h.update())
	for _, f := range files {
		m := Mount{Source: f.name(), Target: f.target, ReadOnly: true}
		if _, err := os.Stat(f.target); errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without it
		}
		if err := m.do("/"); err != nil {
			return fmt.Errorf("mount over %s: %w", f.target, err)
		}
	}
	return nil
}

// follow updates the files until the context ends.
func (h *shown) follow(ctx context.Context) {
	look := time.NewTicker(useEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		h.failed(h.update())
	}
}

// failed logs once that the host's use cannot be read completely, as on machines
// whose kernel lacks a controller.
func (h *shown) failed(err error) {
	if err != nil && !h.told {
		slog.Error("use of the host is not shown completely", logkey.Error, err)
		h.told = true
	}
}

// update writes the host's use. The files keep their place, because others are mounted
// from there.
func (h *shown) update() error {
	u, incomplete := h.group.Usage()
	now := time.Now()
	h.time.add(len(h.size.CPUs), now.Sub(h.at), u.CPUNanos-min(h.nanos, u.CPUNanos))
	h.at, h.nanos = now, u.CPUNanos
	return errors.Join(incomplete, overwrite(h.meminfo, meminfo(h.size, u)),
		overwrite(h.stat, stat(h.size, h.time, h.boot)))
}

func overwrite(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// affinity returns the processors that this process may use.
func affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("measure machine: read processors: %w", err)
	}
	var out []int
	for i := 0; len(out) < set.Count(); i++ {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out, nil
}
