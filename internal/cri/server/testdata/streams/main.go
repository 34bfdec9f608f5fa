// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command streams uses its standard streams in the ways of Windows. The first argument says how.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32                 = windows.NewLazySystemDLL("kernel32.dll")
	peekNamedPipe            = kernel32.NewProc("PeekNamedPipe")
	cancelIoEx               = kernel32.NewProc("CancelIoEx")
	getNamedPipeHandleStateW = kernel32.NewProc("GetNamedPipeHandleStateW")
	terminateProcess         = kernel32.NewProc("TerminateProcess")
	ntQueryInformationFile   = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtQueryInformationFile")
)

func main() {
	switch how := os.Args[1]; how {
	case "describe":
		for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
			fmt.Println(describe(windows.Handle(f.Fd())))
		}
	case "copy": // standard input to standard output
		n, err := io.CopyBuffer(writer{os.Stdout}, reader{os.Stdin}, make([]byte, 64<<10))
		fmt.Fprintln(os.Stderr, n, err)
	case "count":
		n, err := io.CopyBuffer(writer{io.Discard}, reader{os.Stdin}, make([]byte, 64<<10))
		fmt.Println(n, err)
	case "write":
		write(number(2))
	case "end": // output, and the end of the process at once
		write(number(2))
		terminateProcess.Call(uintptr(windows.CurrentProcess()), 99)
	case "gone": // until the reader is gone
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
				os.Exit(int(err.(*os.PathError).Err.(windows.Errno)))
			}
		}
	case "ignore": // standard input
		fmt.Println("ignored")
	case "close": // standard output, and write to the other
		os.Stdout.Close()
		fmt.Fprintln(os.Stderr, "still here")
	case "line": // one line of n bytes, and one of control characters
		write(number(2))
		fmt.Print("\x00\x1b[31m\xff\n")
	case "many": // programs at once, each with a line
		many(number(2))
	case "wait": // a read of no byte waits for data
		fmt.Println("reads")
		var n uint32
		err := windows.ReadFile(windows.Handle(os.Stdin.Fd()), nil, &n, nil)
		fmt.Println("has read", err, available(windows.Handle(os.Stdin.Fd())))
	case "cancel":
		cancel()
	case "child": // goes on to write after this program has ended
		c := exec.Command(os.Args[0], "late")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Println("parent ends")
	case "late":
		fmt.Println("child begins")
		time.Sleep(300 * time.Millisecond)
		fmt.Println("child ends")
	default:
		panic(how)
	}
}

// reader and writer hide the methods by which io.Copy would do without the buffer.
type (
	reader struct{ io.Reader }
	writer struct{ io.Writer }
)

func number(arg int) int {
	n, err := strconv.Atoi(os.Args[arg])
	if err != nil {
		panic(err)
	}
	return n
}

// many starts n programs that each write a line, sixteen at a time.
func many(n int) {
	places := make(chan bool, 16)
	for range n {
		places <- true
		go func() {
			c := exec.Command(os.Args[0], "ignore")
			c.Stdout = os.Stdout
			if err := c.Run(); err != nil {
				fmt.Println(err)
			}
			<-places
		}()
	}
	for range cap(places) {
		places <- true
	}
}

// write writes n bytes.
func write(n int) {
	block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for n > 0 {
		m, err := os.Stdout.Write(block[:min(n, len(block))])
		if err != nil {
			panic(err)
		}
		n -= m
	}
}

// describe returns what programs look at before they use a stream.
func describe(h windows.Handle) string {
	kind, _ := windows.GetFileType(h)
	mode := uint32(windows.PIPE_READMODE_BYTE | windows.PIPE_WAIT)
	set := windows.SetNamedPipeHandleState(h, &mode, nil, nil)
	state := uint32(99)
	ok, _, _ := getNamedPipeHandleStateW.Call(uintptr(h), uintptr(unsafe.Pointer(&state)), 0, 0, 0, 0, 0)
	var flags uint32
	info := windows.GetNamedPipeInfo(h, &flags, nil, nil, nil)
	var io windows.IO_STATUS_BLOCK
	const fileModeInformation, synchronousNonalert = 16, 0x20
	var options uint32
	status, _, _ := ntQueryInformationFile.Call(uintptr(h), uintptr(unsafe.Pointer(&io)),
		uintptr(unsafe.Pointer(&options)), 4, fileModeInformation)
	var console uint32
	return fmt.Sprintf("pipe=%t set=%v state=%d/%d info=%v/%d sync=%t/%d console=%t",
		kind == windows.FILE_TYPE_PIPE, set, ok, state, info, flags,
		options&synchronousNonalert != 0, status, windows.GetConsoleMode(h, &console) == nil)
}

func available(h windows.Handle) uint32 {
	var n uint32
	if ok, _, err := peekNamedPipe.Call(uintptr(h), 0, 0, 0, uintptr(unsafe.Pointer(&n)), 0); ok == 0 {
		panic(err)
	}
	return n
}

// cancel ends a read of standard input that waits.
func cancel() {
	in := windows.Handle(os.Stdin.Fd())
	go func() {
		time.Sleep(200 * time.Millisecond)
		cancelIoEx.Call(uintptr(in), 0)
	}()
	var n uint32
	fmt.Println(windows.ReadFile(in, make([]byte, 10), &n, nil))
}
