// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// ctrlBreak is CTRL_BREAK_EVENT of wincon.h.
const ctrlBreak = 1

// sendBreak sends CTRL_BREAK_EVENT to a program in a process group of its own, as Go programs stop what they start.
func sendBreak() {
	mine := make(chan os.Signal, 1)
	signal.Notify(mine, os.Interrupt)
	cmd := exec.Command(os.Args[0], "broken")
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		say("start", "%v", err)
		return
	}
	bufio.NewScanner(out).Scan() // it is ready
	generate := kernel.NewProc("GenerateConsoleCtrlEvent")
	if ok, _, err := generate.Call(ctrlBreak, 0xfffff0); ok == 0 {
		say("unknown group", "%v", err)
	}
	if ok, _, err := generate.Call(ctrlBreak, uintptr(cmd.Process.Pid)); ok == 0 {
		say("group", "%v", err)
		_ = cmd.Process.Kill()
	}
	say("child", "%v", cmd.Wait())
	select {
	case s := <-mine:
		say("parent", "%v", s)
	case <-time.After(time.Second):
		say("parent", "left alone")
	}
}

// awaitBreak ends with 5 when it is interrupted.
func awaitBreak() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	say("ready", "yes")
	select {
	case <-c:
		os.Exit(5)
	case <-time.After(time.Minute):
	}
}
