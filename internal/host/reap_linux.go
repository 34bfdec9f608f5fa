// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// reapEvery bounds how long a dead orphan is seen. Two looks are needed to bury
// one, see run.
const reapEvery = 500 * time.Millisecond

// Reaper buries the orphans that process 1 inherits: wineserver, conmon, every
// Windows process whose parent has ended. It must not touch init's own
// children, whose exit status their owners wait for.
type Reaper struct {
	mu  sync.Mutex
	own map[int]bool // guarded by mu
}

func NewReaper() *Reaper { return &Reaper{own: map[int]bool{}} }

// Watch is spawner.Child with the child registered at the reaper.
func (r *Reaper) Watch(s *supervise.Spawner, c supervise.Command) func(context.Context) error {
	return func(ctx context.Context) error {
		pid := 0
		c.OnStart = func(p int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			pid = p
			r.own[p] = true
		}
		defer func() { r.forget(pid) }()
		return s.Child(c)(ctx)
	}
}

// CombinedOutput is the command's, with its process registered at the reaper.
func (r *Reaper) CombinedOutput(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := r.start(cmd); err != nil {
		return nil, err
	}
	defer r.forget(cmd.Process.Pid)
	err := cmd.Wait()
	return out.Bytes(), err
}

// start holds the lock, so that no process is looked at before it is known.
func (r *Reaper) start(cmd *exec.Cmd) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.own[cmd.Process.Pid] = true
	return nil
}

func (r *Reaper) forget(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, pid)
}

// run buries until the context ends. A dead child that is not registered is left
// alone the first time, because it may be registered in a moment: its process ID is
// noted a moment after it was started.
func (r *Reaper) run(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	seen := map[int]bool{}
	for {
		dead := map[int]bool{}
		for _, pid := range zombies() {
			r.mu.Lock()
			own := r.own[pid]
			r.mu.Unlock()
			switch {
			case own:
			case seen[pid]:
				// The only possible error is that it is gone already.
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			default:
				dead[pid] = true
			}
		}
		seen = dead
		wait := time.NewTimer(reapEvery)
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		case <-died:
			if len(seen) > 0 {
				<-wait.C // give their owners a moment
			}
		}
	}
}

// zombies lists the dead children of this process.
func zombies() []int {
	// Each thread has the children that it forked; orphans come to any of them.
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil // impossible: the pattern is valid
	}
	var dead []int
	for _, l := range lists {
		content, err := os.ReadFile(l)
		if err != nil {
			continue // the thread has ended
		}
		for f := range bytes.FieldsSeq(content) {
			pid, err := strconv.Atoi(string(f))
			if err == nil && isZombie(pid) {
				dead = append(dead, pid)
			}
		}
	}
	return dead
}

func isZombie(pid int) bool { return ProcessState(pid) == 'Z' }

// ProcessState returns the state of a process as in /proc/PID/stat: 'S', 'T', 'Z'; 0 if it has ended.
func ProcessState(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// "PID (NAME) STATE ...": the name may contain anything, also ") ".
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 || i+2 >= len(stat) {
		return 0
	}
	return stat[i+2]
}
