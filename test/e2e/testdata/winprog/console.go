// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"
)

var kernel = syscall.NewLazyDLL("kernel32.dll")

// Modes and types of events, wincon.h.
const (
	enableWindowInput = 0x8
	enableVT          = 0x4
	keyEvent          = 1
	resizeEvent       = 4
)

// console prints the size of the window whenever it is another one, and the
// events that tell of it, until somebody types q.
func console() {
	out, err := syscall.GetStdHandle(syscall.STD_OUTPUT_HANDLE)
	if err != nil {
		say("console", "%v", err)
		return
	}
	in, err := syscall.GetStdHandle(syscall.STD_INPUT_HANDLE)
	if err != nil {
		say("console", "%v", err)
		return
	}
	kernel.NewProc("SetConsoleMode").Call(uintptr(in), enableWindowInput)
	events := make(chan string)
	go readEvents(in, events)
	var last [4]int16
	for {
		var info struct {
			size, cursor [2]int16
			attributes   uint16
			window       [4]int16 // left, top, right, bottom
			maximum      [2]int16
		}
		if ok, _, err := kernel.NewProc("GetConsoleScreenBufferInfo").Call(uintptr(out),
			uintptr(unsafe.Pointer(&info))); ok == 0 {
			say("console", "none: %v", err)
			return
		}
		if info.window != last {
			last = info.window
			say("console", "%dx%d", last[2]-last[0]+1, last[3]-last[1]+1)
		}
		select {
		case e := <-events:
			if e == "q" {
				return
			}
			say("resized", "%s", e)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// readEvents sends the size of each resize event, and each key.
func readEvents(in syscall.Handle, events chan<- string) {
	for {
		var record struct {
			kind uint16
			_    uint16
			data [8]uint16
		}
		var n uint32
		ok, _, _ := kernel.NewProc("ReadConsoleInputW").Call(uintptr(in), uintptr(unsafe.Pointer(&record)), 1,
			uintptr(unsafe.Pointer(&n)))
		switch {
		case ok == 0:
			return
		case record.kind == resizeEvent:
			events <- fmt.Sprintf("%dx%d", record.data[0], record.data[1])
		case record.kind == keyEvent && record.data[0] != 0 && record.data[5] != 0:
			events <- string(rune(record.data[5]))
		}
	}
}

// lines prints each line that it reads, and goes on after the end of the input.
// It tells of control events, and takes Ctrl+Break for nothing more.
func lines() {
	kernel.NewProc("SetConsoleCtrlHandler").Call(syscall.NewCallback(func(event uintptr) uintptr {
		say("console event", "%d", event)
		if event == 1 {
			return 1
		}
		return 0
	}), 1)
	fmt.Println("ready")
	for {
		s := bufio.NewScanner(os.Stdin)
		for s.Scan() {
			if s.Text() == "exit" {
				os.Exit(6)
			}
			fmt.Printf("<%s>\n", s.Text())
		}
		fmt.Println("end of input")
	}
}

// colors writes a in red, b in bright green and c in the default color, each in
// another way.
func colors() {
	out, err := syscall.GetStdHandle(syscall.STD_OUTPUT_HANDLE)
	if err != nil {
		say("colors", "%v", err)
		return
	}
	var mode uint32
	if err := syscall.GetConsoleMode(out, &mode); err != nil {
		say("colors", "%v", err)
		return
	}
	kernel.NewProc("SetConsoleMode").Call(uintptr(out), uintptr(mode|enableVT))
	fmt.Print("\x1b[31ma\x1b[m")
	kernel.NewProc("SetConsoleMode").Call(uintptr(out), uintptr(mode))
	kernel.NewProc("SetConsoleTextAttribute").Call(uintptr(out), 0x0a)
	fmt.Print("b")
	kernel.NewProc("SetConsoleTextAttribute").Call(uintptr(out), 0x07)
	fmt.Print("c")
}

// copyInput copies standard input to standard output.
func copyInput() {
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
