// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/winsys/cmdline"
)

// stopMarker in the status directory marks a SIGINT as the end of the container,
// not Ctrl+C, for winemend.dll.
const stopMarker = ".stop"

// stopNoticed and a process's number are the name of a file that winemend.dll makes when
// the process takes the request to end. It takes one only.
const stopNoticed = ".stop."

// Run starts the program, waits for its end and returns the status with which
// init itself is to exit. Messages go to stderr.
func Run(c Config, env []string, stderr io.Writer) int {
	// First of all: process 1 loses signals that it does not handle.
	signals := make(chan os.Signal, 16) // a burst of SIGCHLD collapses into fewer
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	p, err := makePlan(c, env)
	if err == nil {
		// Started in the directory, so that Wine takes it for the current one.
		err = enterDir(c, p.dir)
	}
	if err != nil {
		return refuse(c, err, stderr)
	}
	if c.Host {
		// Orphans of the container come to this process, not to the host's.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return refuse(c, err, stderr)
		}
	}
	if c.Exec && !c.Host {
		awaitBoot("/proc")
	}
	// The filter and the mask are of this thread, which starts the program.
	runtime.LockOSThread()
	if err := errors.Join(blockAlarm(), closeDoor()); err != nil {
		return refuse(c, err, stderr)
	}
	rawTerminal()
	output, err := openStreams()
	if err != nil {
		return refuse(c, err, stderr)
	}
	pid, err := syscall.ForkExec(p.path, p.argv, &syscall.ProcAttr{
		Env: output.environ(p.env), Files: []uintptr{0, 1, 2, uintptr(output.write)},
	})
	if err != nil {
		return refuse(c, err, stderr)
	}
	if err := reportStarted(c); err != nil {
		fmt.Fprintln(stderr, "mullion-init:", err)
	}
	code := wait(c, pid, signals)
	output.await(func() bool { return lives(serviceManager) })
	if c.Host && !c.Exec {
		endOthers(c)
	}
	if err := (Status{ExitCode: code}).write(c.StatusDir, c.StatusName); err != nil {
		fmt.Fprintln(stderr, "mullion-init:", err)
	}
	return unixStatus(code)
}

// refuse reports to the server why there is no program. Like Windows, it doesn't write to the output of
// the container.
func refuse(c Config, err error, stderr io.Writer) int {
	code := exitNoStart
	if errors.Is(err, errNotFound) {
		code = exitNotFound
	}
	failed := (Status{ExitCode: uint32(code), Error: err.Error()}).write(c.StatusDir, c.StatusName)
	if c.StatusName == "" || failed != nil {
		fmt.Fprintf(stderr, "mullion-init: %s: %v\n", c.command(), errors.Join(err, failed))
	}
	return code
}

// command returns the command line, for a message.
func (c Config) command() string { return cmp.Or(c.CommandLine, cmdline.Join(c.Args)) }

// wait reaps children until the main one has ended and returns its exit code.
func wait(c Config, pid int, signals <-chan os.Signal) uint32 {
	var asked request
	for {
		select {
		case <-asked.again:
			asked.repeat(c.StatusDir)
		case s := <-signals:
			switch {
			case s == syscall.SIGCHLD:
				if end, ended := reap(c, pid); ended {
					return asked.code(end)
				}
			case s == syscall.SIGTERM && asked.made():
				// The server sends the request twice, because this process may miss
				// the first one.
			default:
				if programs := stop(c, pid, s); s == syscall.SIGTERM && len(programs) > 0 {
					asked = newRequest(programs)
				}
			}
		}
	}
}

// exit is how a program ended.
type exit struct {
	code     uint32
	signaled bool
}

// reap reaps the children that have ended, and reports whether the main one is among them.
func reap(c Config, pid int) (end exit, ended bool) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			return exit{}, false
		}
		code := exitCode(c.StatusDir, got, status)
		if got == pid {
			return exit{code, status.Signaled()}, true
		}
		if !c.Exec && status.Signaled() && (!lives(wineServer) || booted("/proc") && !lives(serviceManager)) {
			// The wineserver was killed, or the service manager. Without the first its
			// clients would hang at their next call forever, without the second the
			// program's output is lost; the container ends instead, as a machine does
			// when its kernel fails. A program that has already ended is waited for above.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// The processes of Wine that programs depend on.
const wineServer, serviceManager = "wineserver", "services.exe"

// request is a request to end, on its way to the programs that were running when it came. A
// program that starts misses it while Wine has its handler and not yet the routine that the
// handler starts (int_handler of ntdll/unix/signal_x86_64.c), so the request is repeated
// until it notices.
type request struct {
	programs []int // that may not have noticed
	pause    time.Duration
	again    <-chan time.Time // when to repeat it
}

// Each repetition makes Wine start a thread in the program.
const firstPause, longestPause = 250 * time.Millisecond, 4 * time.Second

func newRequest(programs []int) request {
	return request{programs, firstPause, time.After(firstPause)}
}

// made reports whether there was a request. Programs that start later, for example from a
// program's handler, do not get it.
func (r *request) made() bool { return r.pause > 0 }

// controlCExit is STATUS_CONTROL_C_EXIT, as which Windows ends a program that handles no
// control event.
const controlCExit = 0xC000013A

// code returns the exit code of a program. A program that got the request before Wine had
// its handler, or its server, ends by a signal.
func (r *request) code(end exit) uint32 {
	if r.made() && end.signaled {
		return controlCExit
	}
	return end.code
}

// repeat sends the request again to the programs that have not noticed.
func (r *request) repeat(statusDir string) {
	r.programs = slices.DeleteFunc(r.programs, func(pid int) bool {
		_, err := os.Stat(filepath.Join(statusDir, stopNoticed+strconv.Itoa(pid)))
		// A program that has ended can't get a request.
		return err == nil || syscall.Kill(pid, syscall.SIGINT) != nil
	})
	r.again = nil
	if len(r.programs) > 0 {
		r.pause = min(2*r.pause, longestPause)
		r.again = time.After(r.pause)
	}
}

// accessViolation is STATUS_ACCESS_VIOLATION, as which Windows ends a program for
// an interrupt that it has no gate for (int 80h raises a protection fault).
const accessViolation = 0xC0000005

// loaderCodes returns the codes with which Wine's loader ends a program before winemend.dll begins, by their Unix
// status: STATUS_INVALID_IMAGE_FORMAT, STATUS_DLL_NOT_FOUND, STATUS_ORDINAL_NOT_FOUND and STATUS_ENTRYPOINT_NOT_FOUND.
func loaderCodes() map[int]uint32 {
	return map[int]uint32{0x7B: 0xC000007B, 0x35: 0xC0000135, 0x38: 0xC0000138, 0x39: 0xC0000139}
}

// exitCode returns the program's code in full. winemend.dll leaves it in a file, unless it is 0. The file is removed.
func exitCode(dir string, pid int, status syscall.WaitStatus) uint32 {
	name := filepath.Join(dir, ".exit."+strconv.Itoa(pid))
	if data, err := os.ReadFile(name); err == nil {
		_ = os.Remove(name) // another process may get the number
		code, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 32)
		// The file of an earlier process has another code.
		if err == nil && (status.Signaled() || wineStatus(uint32(code)) == status.ExitStatus()) {
			return uint32(code)
		}
	}
	if status.Signaled() {
		// The program was killed from outside. The code given to TerminateProcess
		// is not known here; taskkill /f gives 1. An out-of-memory kill looks the
		// same; the CRI server recognizes it by the cgroup's events.
		if status.Signal() == syscall.SIGKILL {
			return 1
		}
		if status.Signal() == syscall.SIGSYS {
			return accessViolation // closeDoor
		}
		return 128 + uint32(status.Signal())
	}
	if code, ok := loaderCodes()[status.ExitStatus()]; ok {
		return code
	}
	return uint32(status.ExitStatus())
}

// wineStatus returns Wine's Unix status for a code (dlls/ntdll/unix/thread.c, get_unix_exit_code).
func wineStatus(code uint32) int {
	if code != 0 && code&0xff == 0 {
		return 1
	}
	return int(code & 0xff)
}

// stop passes a request to end on to the programs, and returns the ones that may miss
// it. A process that exec started is ended alone; in the main one's place all programs
// of the container get the event, as on Windows.
func stop(c Config, pid int, s os.Signal) []int {
	if s == syscall.SIGHUP {
		return nil // the terminal is gone; the console host notifies the programs
	}
	if c.Exec {
		_ = syscall.Kill(pid, s.(syscall.Signal)) // gone already: its end is on the way
		return nil
	}
	if s == syscall.SIGTERM {
		// Without the marker the programs see Ctrl+C: still a request to end.
		_ = os.WriteFile(filepath.Join(c.StatusDir, stopMarker), nil, 0o644)
	}
	list := programs(c)
	for _, p := range list {
		_ = syscall.Kill(p, syscall.SIGINT) // likewise
	}
	return list
}

// programs lists the container's Windows processes except Wine's own services.
func programs(c Config) []int {
	if !c.Host {
		return processes(isProgram)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(processes(isProgram), func(pid int) bool {
		other, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		return err != nil || !bytes.Equal(own, other)
	})
}

// othersGrace is how long hcsshim lets the other processes of a host process
// container run after the first has ended (jobcontainer.go, waitBackground).
const othersGrace = 5 * time.Second

// endOthers sends the rest of the container a request to end, and waits. The
// runtime kills the remainder, together with the container.
func endOthers(c Config) {
	left := programs(c)
	if len(left) == 0 {
		return
	}
	_ = os.WriteFile(filepath.Join(c.StatusDir, stopMarker), nil, 0o644)
	for _, p := range left {
		_ = syscall.Kill(p, syscall.SIGINT) // already gone, as wanted
	}
	for end := time.Now().Add(othersGrace); time.Now().Before(end) && len(programs(c)) > 0; {
		time.Sleep(20 * time.Millisecond)
		for {
			if got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || got <= 0 {
				break
			}
		}
	}
}

// lives reports whether the container has a process of a program. The wineserver and the
// service manager detach from their parents when they start, so process 1 is notified of
// their end.
func lives(program string) bool {
	return len(processes(func(cmdline []byte) bool { return programName(cmdline) == program })) > 0
}

// processes lists the container's processes whose command line is wanted.
func processes(want func(cmdline []byte) bool) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && want(cmdline) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// programName returns the file name of argv[0], in lower case. Wine gives each
// process the Windows path of its program there.
func programName(cmdline []byte) string {
	argv0, _, _ := bytes.Cut(cmdline, []byte{0})
	name := strings.ToLower(string(argv0))
	return name[strings.LastIndexAny(name, `\/`)+1:]
}

// isProgram looks at a command line of /proc.
func isProgram(cmdline []byte) bool {
	switch programName(cmdline) {
	case "", "init", "wineserver", "services.exe", "winedevice.exe", "plugplay.exe", "svchost.exe", "rpcss.exe",
		"explorer.exe", "conhost.exe", "wineboot.exe", "start.exe":
		return false
	}
	return true
}
