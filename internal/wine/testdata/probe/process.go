// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// version prints the system's version information, for the test to compare.
func version(t *probe) {
	v := windows.RtlGetVersion()
	fmt.Printf("RtlGetVersion %d.%d.%d type %d\n", v.MajorVersion, v.MinorVersion, v.BuildNumber, v.ProductType)
	v32, err := windows.GetVersion()
	t.must(err)
	fmt.Printf("GetVersion %d.%d.%d\n", v32&0xff, v32>>8&0xff, v32>>16)
	major, minor, build := windows.RtlGetNtVersionNumbers()
	fmt.Printf("RtlGetNtVersionNumbers %d.%d.%d\n", major, minor, build)
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion`,
		registry.QUERY_VALUE)
	t.must(err)
	for _, name := range []string{"ProductName", "CurrentBuildNumber", "CurrentVersion", "ReleaseId"} {
		s, _, err := k.GetStringValue(name)
		t.must(err)
		fmt.Printf("%s %s\n", name, s)
	}
	for _, name := range []string{"UBR", "CurrentMajorVersionNumber", "CurrentMinorVersionNumber"} {
		n, _, err := k.GetIntegerValue(name)
		t.must(err)
		fmt.Printf("%s %d\n", name, n)
	}
	t.must(k.Close())
}

// exit ends with the given code.
func exit(t *probe) {
	code, err := strconv.ParseUint(os.Args[2], 0, 32)
	t.must(err)
	windows.ExitProcess(uint32(code))
}

// waitForShutdown ends on a shutdown request, and prints its kind.
func waitForShutdown(t *probe) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	fmt.Println("waiting")
	fmt.Println("got", <-c)
	os.Exit(7)
}

// returns has a handler that takes each event, and returns. The runtime of Go does not return from its own handler.
func returns(t *probe) {
	handler := syscall.NewCallback(func(event uintptr) uintptr {
		fmt.Println("event", event)
		return 1
	})
	if ok, _, err := syscall.NewLazyDLL("kernel32.dll").NewProc("SetConsoleCtrlHandler").Call(handler, 1); ok == 0 {
		t.errorf("SetConsoleCtrlHandler: %v", err)
	}
	fmt.Println("waiting")
	time.Sleep(time.Hour)
}

// sleep has no handler for any event.
func sleep(t *probe) {
	fmt.Println("waiting")
	time.Sleep(time.Hour)
}

// arguments prints the arguments and the command line that they come from.
func arguments(*probe) {
	line := syscall.NewLazyDLL("kernel32.dll").NewProc("GetCommandLineW")
	p, _, _ := line.Call()
	fmt.Printf("%q %s\n", os.Args, windows.UTF16PtrToString((*uint16)(unsafe.Add(unsafe.Pointer(nil), p))))
}

// panics has Go's runtime turn an exception into a panic.
func panics(*probe) {
	var nowhere *int
	*nowhere = 1
}
