// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/wine"
)

// Exit codes: the NTSTATUS of the exception, ntstatus.h.
const (
	statusAccessViolation = 0xC0000005
	statusFailFast        = 0xC0000409 // STATUS_STACK_BUFFER_OVERRUN
	statusHeapCorruption  = 0xC0000374
	statusIllegal         = 0xC000001D
	statusStackOverflow   = 0xC00000FD
	statusDLLNotFound     = 0xC0000135
	statusEntryPoint      = 0xC0000139
)

// TestContainerCrashes: a program ends with the code of the exception that it does not handle, and without any output.
func TestContainerCrashes(t *testing.T) {
	c := newContainer(t, "2019")
	crash, library := crashProgram(t)
	copyTo(t, library, c.path("upper", "library.dll"))
	copyTo(t, crash, c.path("upper", "crash.exe"))
	for name, data := range brokenPrograms(t, crash) {
		if err := os.WriteFile(c.path("upper", name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	main := c.start(wine.Process{Args: []string{`C:\probe.exe`, "wait"}})
	c.await()
	for i, row := range []struct {
		command string
		code    uint32
		out     string
	}{
		{command: "crash load-null", code: statusAccessViolation},
		{command: "crash store-null", code: statusAccessViolation},
		{command: "crash store-code", code: statusAccessViolation},
		{command: "crash call-null", code: statusAccessViolation},
		{command: "crash load-noncanonical", code: statusAccessViolation},
		{command: "crash no-access", code: statusAccessViolation},
		{command: "crash no-execute", code: statusAccessViolation},
		{command: "crash lost-stack", code: statusAccessViolation},
		{command: "crash error-mode", code: statusAccessViolation},
		{command: "crash at-exit", code: statusAccessViolation},
		{command: "crash guard-page", code: 0x80000001},
		{command: "crash int3", code: 0x80000003},
		{command: "crash single-step", code: 0x80000004},
		{command: "crash ud2", code: statusIllegal},
		{command: "crash float-trap", code: 0xC000008E},
		{command: "crash divide", code: 0xC0000094},
		{command: "crash hlt", code: 0xC0000096},
		{command: "crash int2c", code: 0xC0000420},
		{command: "crash recurse", code: statusStackOverflow},
		{command: "crash recurse-far", code: statusStackOverflow},
		{command: "crash fail-fast", code: statusFailFast},
		{command: "crash cookie", code: statusFailFast},
		{command: "crash abort-msvcrt", code: 3},
		{command: "crash abort-ucrt", code: statusFailFast},
		{command: "crash terminate-ucrt", code: statusFailFast},
		{command: "crash purecall-ucrt", code: statusFailFast},
		{command: "crash invalid-parameter-ucrt", code: statusFailFast},
		{command: "crash raise-cpp", code: 0xE06D7363},
		{command: "crash raise-own", code: 0xE0434352},
		{command: "crash raise-small", code: 5},
		{command: "crash raise-fail-fast", code: 0xC0000602},
		{command: "crash raise-fail-fast-record", code: 0x80131623},
		{command: "crash terminate-self", code: statusAccessViolation},
		{command: "crash free-twice", code: statusHeapCorruption},
		{command: "crash free-inside", code: statusHeapCorruption},
		{command: "crash overrun", code: statusHeapCorruption},

		{command: "crash filter-says", code: statusAccessViolation, out: "filter c0000005\r\n"},
		{command: "crash filter-vectored", code: statusAccessViolation, out: "filter c0000005\r\n"},
		{command: "crash filter-exits", code: 42},
		{command: "crash filter-crashes", code: statusAccessViolation},

		{command: "crash thread load-null", code: statusAccessViolation},
		{command: "crash thread recurse", code: statusStackOverflow},
		{command: "crash thread fail-fast", code: statusFailFast},
		{command: "crash child load-null", code: statusAccessViolation, out: "child c0000005\r\n"},
		{command: "crash child recurse", code: statusStackOverflow, out: "child c00000fd\r\n"},
		{command: "crash child fail-fast", code: statusFailFast, out: "child c0000409\r\n"},
		{command: "cmd /c crash ud2", code: statusIllegal},
		{command: "cmd /v:on /c crash ud2 & echo !ERRORLEVEL!", code: statusIllegal, out: "-1073741795\r\n"},

		{command: "crash attach-null", code: statusAccessViolation},
		{command: "crash attach-raise", code: 0xE0000001},
		{command: "crash attach-fail-fast", code: statusFailFast},
		{command: "crash attach-false", code: 0xC0000142},
		{command: "no-library", code: statusDLLNotFound},
		{command: "crash start no-library", code: statusDLLNotFound, out: "child c0000135\r\n"},
		{command: "no-function call-library", code: statusEntryPoint}, // and starts, unlike on Windows

		{command: "crash start x86", code: 216}, // ERROR_EXE_MACHINE_TYPE_MISMATCH
		{command: "crash start arm64", code: 216},
		{command: "crash start dos", code: 216},
		{command: "crash start text", code: 193}, // ERROR_BAD_EXE_FORMAT
		{command: "crash start dll", code: 193},
		{command: "crash start short", code: 193},
		{command: "crash start linux", code: 193},
		{command: "crash start none", code: 2}, // ERROR_FILE_NOT_FOUND
	} {
		out, s := c.exec(fmt.Sprintf("crash%d", i), wine.Process{Args: strings.Fields(row.command)})
		if s.ExitCode != row.code || out != row.out || s.Error != "" {
			t.Errorf("%s: code %#x, want %#x; output %q, want %q; %s", row.command, s.ExitCode, row.code, out, row.out,
				s.Error)
		}
	}
	out, s := c.exec("panic", wine.Process{Args: []string{"probe", "panic"}})
	if s.ExitCode != 2 || !strings.HasPrefix(out, "panic: runtime error: invalid memory address") {
		t.Errorf("Go's panic: code %#x, output %q", s.ExitCode, out)
	}
	const badImage, otherMachine = "%1 is not a valid Win32 application.", "This version of %1 is not compatible with"
	for name, want := range map[string]string{"x86": otherMachine, "arm64": otherMachine, "dos": otherMachine,
		"text": badImage, "empty": badImage, "dll": badImage, "short": badImage, "linux": badImage} {
		if out, s := c.exec(name, wine.Process{Args: []string{name}}); !strings.Contains(s.Error, want) || out != "" {
			t.Errorf("%s: error %q, want %q; output %q", name, s.Error, want, out)
		}
	}
	if files, err := filepath.Glob(c.path("status", ".exit.*")); err != nil || len(files) > 0 {
		t.Errorf("left exit codes: %q, %v", files, err)
	}
	c.stop(main)
}

// TestContainerCrashOfMain: the same for the container's own program.
func TestContainerCrashOfMain(t *testing.T) {
	c := newContainer(t, "2022")
	crash, library := crashProgram(t)
	copyTo(t, library, c.path("upper", "library.dll"))
	copyTo(t, crash, c.path("upper", "crash.exe"))
	out, s := c.run(wine.Process{Args: []string{"crash", "load-null"}})
	if s.ExitCode != statusAccessViolation || out != "" || s.Error != "" {
		t.Errorf("%+v, output %q", s, out)
	}
}

// TestHostCrashes: the same for programs of a host.
func TestHostCrashes(t *testing.T) {
	h := newHost(t, "2019")
	crash, library := crashProgram(t)
	copyTo(t, library, filepath.Join(h.Prefix, "drive_c", "library.dll"))
	copyTo(t, crash, filepath.Join(h.Prefix, "drive_c", "crash.exe"))
	for way, code := range map[string]uint32{
		"load-null": statusAccessViolation, "recurse": statusStackOverflow, "fail-fast": statusFailFast,
	} {
		out, err := runIn(t, h, `C:\crash.exe`, "child", way)
		if want := fmt.Sprintf("child %08x\r\n", code); err == nil || out != want {
			t.Errorf("%s: output %q, want %q; %v", way, out, want, err)
		}
	}
}

// crashProgram compiles testdata/crash.
func crashProgram(t *testing.T) (exe, library string) {
	t.Helper()
	const gcc = "x86_64-w64-mingw32-gcc"
	library = program(t, "library.dll", func(out string) *exec.Cmd {
		return exec.Command(gcc, "-O1", "-shared", "-DNUMBER=number", "-o", out, "testdata/crash/library.c")
	})
	exe = program(t, "crash.exe", func(out string) *exec.Cmd {
		return exec.Command(gcc, "-O1", "-o", out, "testdata/crash/crash.c", library)
	})
	return exe, library
}

// brokenPrograms returns files that Windows refuses to run, by their names.
func brokenPrograms(t *testing.T, crash string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(crash)
	if err != nil {
		t.Fatal(err)
	}
	less, err := os.ReadFile(program(t, "libless.dll", func(out string) *exec.Cmd {
		return exec.Command("x86_64-w64-mingw32-gcc", "-O1", "-shared", "-DNUMBER=other", "-o", out,
			"testdata/crash/library.c")
	}))
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	header := int(le.Uint32(data[0x3C:]))
	changed := func(offset int, value uint16) []byte {
		out := bytes.Clone(data)
		le.PutUint16(out[header+offset:], value)
		return out
	}
	uses := func(library string) []byte {
		return bytes.Replace(data, []byte("library.dll"), []byte(library), 1)
	}
	return map[string][]byte{
		"x86.exe":         changed(4, 0x014C), // Machine
		"arm64.exe":       changed(4, 0xAA64),
		"dll.exe":         changed(22, le.Uint16(data[header+22:])|0x2000), // Characteristics
		"short.exe":       data[:1000],
		"dos.exe":         append(bytes.Clone(data[:0x3C]), make([]byte, 100)...),
		"text.exe":        []byte("This program cannot be run.\r\n"),
		"linux.exe":       append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 100)...),
		"empty.exe":       nil,
		"libless.dll":     less,
		"no-function.exe": uses("libless.dll"),
		"no-library.exe":  uses("libnone.dll"),
	}
}
