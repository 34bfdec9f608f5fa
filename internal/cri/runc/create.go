// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Create configures how conmon runs a container.
type Create struct {
	ID        string
	Name      string // for people who read a process list
	Bundle    string // directory with config.json
	LogPath   string // file for stdout and stderr; empty discards them
	Stdin     bool   // keep a pipe for attached clients
	StdinOnce bool   // close it when the first of them leaves
	Terminal  bool
	// Place, unless it is nil, moves conmon to its cgroup. It is called with the
	// process ID before conmon does anything, and conmon's children inherit the
	// cgroup.
	Place func(pid int) error
}

// conmonAPI is the version of conmon's answers that readSync reads: the number
// is in the field "data" whatever it means.
const conmonAPI = "1"

// args is conmon's command line.
func (r *Runtime) args(c Create) []string {
	log := "off:"
	if c.LogPath != "" {
		log = "k8s-file:" + c.LogPath
	}
	args := []string{
		"--api-version", conmonAPI,
		"--cid", c.ID, "--cuuid", c.ID, "--name", c.Name,
		"--bundle", c.Bundle,
		"--container-pidfile", filepath.Join(c.Bundle, "pidfile"),
		"--conmon-pidfile", filepath.Join(c.Bundle, "conmon.pid"),
		"--exit-dir", r.cfg.ExitDir,
		"--persist-dir", c.Bundle,
		"--full-attach",
		"--log-path", log,
		"--log-level", "error",
		"--no-new-keyring",
		"--runtime", r.runc,
		"--runtime-arg", "--root=" + r.cfg.Root,
	}
	switch {
	case c.Terminal:
		args = append(args, "--terminal")
	case c.Stdin:
		args = append(args, "--stdin")
	}
	if c.Stdin && !c.StdinOnce {
		args = append(args, "--leave-stdin-open")
	}
	return args
}

// Create makes the container from its bundle, up to the point where Start runs
// its process, and returns the PID of that process.
func (r *Runtime) Create(ctx context.Context, c Create) (pid int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("create container: %w", err)
	}
	defer func() { _ = read.Close() }() // no data was written to it
	held, release, err := os.Pipe()
	if err != nil {
		_ = write.Close() // no data was written to it
		return 0, fmt.Errorf("create container: %w", err)
	}
	defer func() { _ = release.Close() }() // an error would have come from writing
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.conmon, r.args(c)...)
	cmd.Dir = c.Bundle
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "_OCI_SYNCPIPE=3",
		"_OCI_STARTPIPE=4"}
	cmd.ExtraFiles = []*os.File{write, held}
	cmd.Stderr = &stderr
	// A separate session: a Ctrl-C on our terminal is not for containers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_, _ = write.Close(), held.Close() // conmon has its copies
	if err != nil {
		return 0, fmt.Errorf("start conmon: %w", err)
	}
	if err := c.place(cmd.Process.Pid, release); err != nil {
		_ = cmd.Process.Kill() // it waits
		_ = cmd.Wait()         // killed
		return 0, fmt.Errorf("start conmon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = read.Close() })
	defer stop()
	// conmon forks: this one ends at once, the one that stays answers.
	waitErr := cmd.Wait()
	pid, err = readSync(read)
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("create container: %w", context.Cause(ctx))
	case err == nil:
		return pid, nil
	case waitErr != nil:
		return 0, fmt.Errorf("conmon: %w", explain(ctx, waitErr, stderr.String()))
	}
	return 0, err
}

// place puts conmon into its place and lets it begin.
func (c Create) place(pid int, release *os.File) error {
	if c.Place != nil {
		if err := c.Place(pid); err != nil {
			return err
		}
	}
	_, err := release.Write([]byte{0})
	return err
}

// readSync reads conmon's answer: the PID, or an error.
func readSync(f *os.File) (int, error) {
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if len(bytes.TrimSpace(line)) == 0 {
		if err == nil {
			err = errors.New("empty answer")
		}
		return 0, fmt.Errorf("read conmon's answer: %w", err)
	}
	var answer struct {
		Data    int    `json:"data"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return 0, fmt.Errorf("read conmon's answer %q: %w", line, err)
	}
	if answer.Data <= 0 {
		if text := clean(answer.Message); text != "" {
			return 0, errors.New(text)
		}
		return 0, fmt.Errorf("runc create: conmon answered %d", answer.Data)
	}
	return answer.Data, nil
}

// ConmonPID returns the process that holds a container, or zero. The file that
// names it outlives it, and after a reboot its PID soon is another process's: a
// live conmon is known by its command line.
func ConmonPID(id, bundle string) int {
	pid := readPID(filepath.Join(bundle, "conmon.pid"))
	argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty for the dead
	if err != nil || !bytes.Contains(argv, []byte("\x00--cid\x00"+id+"\x00")) {
		return 0
	}
	return pid
}
