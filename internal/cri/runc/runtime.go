// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Config holds the directories of the programs.
type Config struct {
	// Root is runc's state. It must be on a tmpfs or be emptied at boot: it
	// names processes.
	Root string
	// ExitDir is where conmon writes exit codes.
	ExitDir string
}

// Runtime runs the two programs. It is safe for concurrent use for different
// containers; the caller serialises calls for one.
type Runtime struct {
	cfg          Config
	runc, conmon string // executables
}

// ErrNotRunning is returned by calls that need a running process if the process
// does not run.
var ErrNotRunning = errors.New("container is not running")

// New finds the programs and creates the directories.
func New(cfg Config) (*Runtime, error) {
	r := &Runtime{cfg: cfg}
	var err error
	if r.runc, err = exec.LookPath("runc"); err != nil {
		return nil, fmt.Errorf("find runc: %w", err)
	}
	if r.conmon, err = exec.LookPath("conmon"); err != nil {
		return nil, fmt.Errorf("find conmon: %w", err)
	}
	for _, dir := range []string{cfg.Root, cfg.ExitDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make directory of the runtime: %w", err)
		}
	}
	return r, nil
}

// command prepares a runc command. Its environment is empty on purpose: no
// variable of this process can reach a container through it.
func (r *Runtime) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.runc, append([]string{"--root", r.cfg.Root}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// run runs runc to its end and returns its stderr as the error.
func (r *Runtime) run(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := r.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("runc %s: %w", args[0], explain(ctx, err, stderr.String()))
	}
	return stdout.Bytes(), nil
}

// explain prefers the cause to the exit status.
func explain(ctx context.Context, err error, stderr string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if text := clean(stderr); text != "" {
		return errors.New(text)
	}
	return err
}

// clean takes the timestamps and levels off runc's log lines.
func clean(stderr string) string {
	var out []string
	for line := range strings.Lines(strings.TrimSpace(stderr)) {
		line = strings.TrimSpace(line)
		if _, msg, ok := strings.Cut(line, ` level=error msg=`); ok {
			line = strings.Trim(msg, `"`)
		} else if strings.Contains(line, " level=warning ") || strings.Contains(line, " level=info ") {
			continue
		}
		out = append(out, strings.ReplaceAll(strings.TrimPrefix(line, "runc create failed: "), `\"`, `"`))
	}
	return strings.Join(out, "; ")
}

// Start runs the process of a created container.
func (r *Runtime) Start(ctx context.Context, id string) error {
	_, err := r.run(ctx, "start", id)
	return err
}

// Kill sends a signal to the first process of a container. The kernel ends all
// others of its PID namespace with it if the signal ends the first.
func (r *Runtime) Kill(ctx context.Context, id string, sig unix.Signal) error {
	_, err := r.run(ctx, "kill", id, fmt.Sprint(int(sig)))
	if err != nil && (gone(err) || strings.Contains(err.Error(), "process already finished") ||
		strings.Contains(err.Error(), "container not running")) {
		return fmt.Errorf("signal container %s: %w", id, ErrNotRunning)
	}
	return err
}

// Delete kills the remaining processes of a container and removes its
// namespaces and cgroups. It is not an error if the container does not exist.
func (r *Runtime) Delete(ctx context.Context, id string) error {
	_, err := r.run(ctx, "delete", "--force", id)
	if err != nil && !gone(err) {
		return err
	}
	return nil
}

func gone(err error) bool { return strings.Contains(err.Error(), "does not exist") }

// State is the state of a container as runc reports it.
type State struct {
	ID      string
	Status  string // created, running, paused, stopped
	PID     int
	Created time.Time
}

// States returns the states of all of runc's containers.
func (r *Runtime) States(ctx context.Context) (map[string]State, error) {
	out, err := r.run(ctx, "list", "--format", "json")
	if err != nil {
		return nil, err
	}
	// runc prints null without containers.
	var list []State
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("read runc's list: %w", err)
	}
	states := map[string]State{}
	for _, s := range list {
		states[s.ID] = s
	}
	return states, nil
}

// Update changes the limits of a container.
func (r *Runtime) Update(ctx context.Context, id string, res *specs.LinuxResources) error {
	in, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("encode resources: %w", err)
	}
	var stderr bytes.Buffer
	cmd := r.command(ctx, "update", "--resources", "-", id)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("runc update: %w", explain(ctx, err, stderr.String()))
	}
	return nil
}

// Exit is how a container ended.
type Exit struct {
	Code int
	OOM  bool // the kernel killed a process of it for want of memory
	At   time.Time
}

// Exit reads how a container ended; ok is false while it has not.
func (r *Runtime) Exit(id, bundle string) (exit Exit, ok bool, err error) {
	name := filepath.Join(r.cfg.ExitDir, id)
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return Exit{}, false, nil
	}
	if err != nil {
		return Exit{}, false, fmt.Errorf("read exit code: %w", err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return Exit{}, false, fmt.Errorf("read exit code: %w", err)
	}
	exit.At = info.ModTime()
	if _, err := fmt.Sscan(string(data), &exit.Code); err != nil {
		return Exit{}, false, fmt.Errorf("read exit code of %s: %q: %w", id, data, err)
	}
	if _, err := os.Stat(filepath.Join(bundle, "oom")); err == nil {
		exit.OOM = true
	}
	return exit, true, nil
}

// Forget removes the exit code of a container that is being removed.
func (r *Runtime) Forget(id string) error {
	if err := os.Remove(filepath.Join(r.cfg.ExitDir, id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove exit code: %w", err)
	}
	return nil
}

// Exits lists the IDs of all ended containers that were not forgotten.
func (r *Runtime) Exits() ([]string, error) {
	entries, err := os.ReadDir(r.cfg.ExitDir)
	if err != nil {
		return nil, fmt.Errorf("list exit codes: %w", err)
	}
	var ids []string
	for _, e := range entries {
		// conmon writes a temporary file "<id>.XXXXXX" first.
		if !strings.Contains(e.Name(), ".") {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}
