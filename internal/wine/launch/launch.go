// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package launch implements the program mullion-init: it starts a Windows
// program inside a container and remains its parent.
//
// As PID 1 it reaps orphans, turns SIGTERM into the shutdown event that
// Windows sends to the programs of a container that is stopped, and ends when
// the main program ends, which ends everything else in the container (Wine's
// server and services among it). The full 32-bit exit code goes to a status
// file, because a Unix exit status has only eight bits of it.
//
// It must stay small: it is in the memory of every container and runs for every
// exec probe. It imports little more than the standard library and x/sys.
package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/winsys/cmdline"
)

// FilledPrefix is where FillPrefix mounts the prefix.
const FilledPrefix = "/.wine"

// ExitUnfit is the exit code of mullion-init -check-wine for an UnfitError.
const ExitUnfit = 3

// FillMounts lists the directories of a runtime, empty, on which FillPrefix mounts file systems.
func FillMounts() []string { return []string{FilledPrefix, "/dev", "/proc", "/tmp"} }

// Config describes the program to start. The zero value of each field means "not given".
type Config struct {
	Root        string   // directory that is drive C:
	Args        []string // program and arguments
	CommandLine string   // Windows command line to use as it is
	Dir         string   // working directory, a Windows path
	Loader      string   // Unix path of Wine's loader
	StatusDir   string   // see Status
	StatusName  string
	Exec        bool // joins a running container
	// Host: the program runs on the emulated host itself. It is not alone in its
	// PID namespace, and its container's processes are identified by the cgroup.
	Host bool
}

// Status is the content of a status file, written when the program has ended
// or could not be started.
type Status struct {
	// ExitCode is the code that GetExitCodeProcess would return.
	ExitCode uint32 `json:"exit_code"`
	// Error is Windows' text for why the program could not be started.
	Error string `json:"error,omitempty"`
}

// Exit codes of init itself when no program ran. Shells use the same.
const (
	exitNotFound = 127
	exitNoStart  = 126
)

// maxStatusBytes is far above any status; the file is the container's to write.
const maxStatusBytes = 64 << 10

// ReadStatus reads a status file by its path. The container may have put
// anything there: a pipe, a link, a huge file. A program that was killed
// together with its container does not leave one: the error is then fs.ErrNotExist.
func ReadStatus(file string) (Status, error) {
	var s Status
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return s, errors.Join(errors.New("read status: not a file"), err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxStatusBytes))
	if err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	return s, nil
}

// write puts the status file in place in one step.
func (s Status) write(dir, name string) error {
	if name == "" {
		return nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	tmp := filepath.Join(dir, "."+name+".tmp")
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return fmt.Errorf("write status: %w", withoutPath(err))
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("write status: %w", withoutPath(err))
	}
	return nil
}

// unixStatus squeezes a Windows exit code into eight bits without making a
// failure look like success.
func unixStatus(code uint32) int {
	if low := int(code & 0xff); low != 0 || code == 0 {
		return low
	}
	return 0xff
}

// plan is the Unix command that runs the program.
type plan struct {
	path string
	argv []string
	env  []string
	dir  string
}

// makePlan finds the program and the directory in the container's file system.
func makePlan(c Config, env []string) (plan, error) {
	p := plan{path: c.Loader, dir: c.Root, env: env}
	if c.Dir != "" {
		dir, err := findDir(c)
		if err != nil {
			return p, err
		}
		p.dir = dir
	}
	program, args := "", []string(nil)
	if c.CommandLine != "" {
		program = firstArg(c.CommandLine)
	} else if len(c.Args) > 0 {
		program, args = c.Args[0], c.Args[1:]
	}
	if program == "" {
		return p, errors.New("no program given")
	}
	file, err := findProgram(c.Root, p.dir, program, searchPath(env), searchExt(env))
	// `mullion exec` has no status file. It reports a missing program by its own exit code.
	if err != nil && c.Host && (!c.Exec || c.StatusName != "") {
		return c.shellPlan(p), nil
	}
	if err != nil {
		return p, err
	}
	if err := checkProgram(file); err != nil {
		return p, err
	}
	windows := toWindows(c.Root, file)
	if isBatch(file) {
		p.argv = append([]string{c.Loader, `C:\windows\system32\cmd.exe`, "/c", windows}, args...)
	} else {
		p.argv = append([]string{c.Loader, windows}, args...)
	}
	line := c.CommandLine
	// Wine's cmd.exe takes a slash in its own name for an option.
	if line == "" && !isBatch(file) && !strings.EqualFold(filepath.Base(file), "cmd.exe") {
		line = cmdline.Join(c.Args)
	}
	if line != "" {
		// Wine would build another command line from argv; winemend.dll puts
		// this one in its place.
		p.env = append(p.env, commandLineVariable+"="+line)
	}
	if c.CommandLine != "" {
		p.argv = p.argv[:2]
	}
	return p, nil
}

// isBatch reports whether a file is one that CreateProcess hands to cmd.exe.
func isBatch(file string) bool {
	ext := strings.ToLower(filepath.Ext(file))
	return ext == ".bat" || ext == ".cmd"
}

// shellPlan hands the command to cmd.exe, as hcsshim does with each command of a
// HostProcess container (internal/jobcontainers/jobcontainer.go, CreateProcess):
// it may be one of the shell's own. cmd.exe reports a missing program.
func (c Config) shellPlan(p plan) plan {
	p.argv = []string{c.Loader, `C:\windows\system32\cmd.exe`, "/c"}
	if c.CommandLine != "" {
		p.env = append(p.env, commandLineVariable+"=cmd /c "+c.CommandLine)
		return p
	}
	p.argv = append(p.argv, c.Args...)
	return p
}

// commandLineVariable is read, and removed from the environment, by
// native/winemend.
const commandLineVariable = "MULLION_COMMAND_LINE"

// firstArg cuts the program from a command line: quotes hold spaces together.
func firstArg(line string) string {
	line = strings.TrimLeft(line, " \t")
	if rest, ok := strings.CutPrefix(line, `"`); ok {
		name, _, _ := strings.Cut(rest, `"`)
		return name
	}
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i]
	}
	return line
}
