// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bootLimit is how long awaitBoot waits. It is Wine's own limit for the same.
const bootLimit = 5 * time.Minute

// awaitBoot waits until the container's own program has come so far that Wine's
// services run. The first program in a prefix starts wineboot.exe, and all others
// wait for it (dlls/ntdll/unix/env.c, run_wineboot). On a busy machine that
// could be a program of exec; and when it was killed, as a probe's program is at its
// timeout, wineboot.exe was killed with it, and the container's own program waited
// for five minutes.
func awaitBoot(proc string) {
	for end := time.Now().Add(bootLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if booted(proc) {
			return
		}
	}
}

// booted reports whether Wine has put the name of the container's own program in
// the place of its loader's, which it does when wineboot.exe is done.
func booted(proc string) bool {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return true // Wine waits too
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || parentOf(stat) != 1 {
			continue // the parent of a program of exec is outside
		}
		// The first child of init: PIDs below 300 do not come again.
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		return err == nil && len(cmdline) > 0 && !strings.HasPrefix(string(cmdline), "/usr/lib/")
	}
	return false
}

// parentOf reads "PID (name) state parent …"; the name may have anything in it.
func parentOf(stat []byte) int {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
