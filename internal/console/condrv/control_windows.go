// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package condrv

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/internal/console"
)

// controlEvent is IOCTL_CONDRV_CTRL_EVENT of Wine's include/wine/condrv.h:
// CTL_CODE(FILE_DEVICE_CONSOLE, 19, METHOD_BUFFERED, FILE_ANY_ACCESS).
const controlEvent = 0x50<<16 | 19<<2

// closeGrace is how long programs have to end by themselves when their console
// is closed. Source: HandlerRoutine, CTRL_CLOSE_EVENT, 5 seconds.
const closeGrace = 5 * time.Second

// Control sends an event to all programs of the console.
func (s *Server) Control(c console.Control) error {
	if c == console.CtrlC {
		// Wine's server can do this one, and reaches processes that are busy.
		return s.interrupt()
	}
	programs, err := s.programs()
	if err != nil {
		// The list comes from the program that started this host, which has exited.
		// Ctrl+C is the closest event: by default both end a program.
		return s.interrupt()
	}
	routine, err := controlRoutine()
	if err != nil {
		return fmt.Errorf("send control event %d: %w", c, err)
	}
	var open []windows.Handle
	for _, pid := range programs {
		p, err := windows.OpenProcess(windows.PROCESS_ALL_ACCESS, false, pid)
		if err != nil {
			continue // ended
		}
		open = append(open, p)
		startThread(p, routine, uintptr(c))
	}
	if c == console.CtrlClose {
		endAll(open)
	}
	for _, p := range open {
		_ = windows.CloseHandle(p) // opened for this
	}
	return nil
}

// endAll waits for programs to end and kills the remaining ones.
func endAll(programs []windows.Handle) {
	deadline := time.Now().Add(closeGrace)
	for _, p := range programs {
		left := max(0, time.Until(deadline))
		if event, err := windows.WaitForSingleObject(p, uint32(left.Milliseconds())); err != nil ||
			event != windows.WAIT_OBJECT_0 {
			_ = windows.TerminateProcess(p, controlExit) // ended meanwhile
		}
	}
}

// controlExit is STATUS_CONTROL_C_EXIT, the code of a program that a control
// event ended.
const controlExit = 0xC000013A

// interrupt has the server send Ctrl+C.
func (s *Server) interrupt() error {
	var event [8]byte // struct condrv_ctrl_event: CTRL_C_EVENT, all groups
	return windows.DeviceIoControl(s.handle, controlEvent, &event[0], uint32(len(event)), nil, 0, new(uint32), nil)
}

// controlRoutine is where threads begin that handle a control event
// (native/winemend/process.c). The system's modules lie at the same place in all
// processes.
func controlRoutine() (uintptr, error) {
	module, err := windows.LoadDLL("ntdll.dll")
	if err != nil {
		return 0, err
	}
	proc, err := module.FindProc("__wine_ctrl_routine")
	if err != nil {
		return 0, err
	}
	return proc.Addr(), nil
}

var (
	kernel32           = windows.NewLazySystemDLL("kernel32.dll")
	createRemoteThread = kernel32.NewProc("CreateRemoteThread")
	attachConsole      = kernel32.NewProc("AttachConsole")
	freeConsole        = kernel32.NewProc("FreeConsole")
	consoleProcesses   = kernel32.NewProc("GetConsoleProcessList")
)

func startThread(process windows.Handle, routine, parameter uintptr) {
	thread, _, _ := createRemoteThread.Call(uintptr(process), 0, 0, routine, parameter, 0, 0)
	if thread != 0 {
		_ = windows.CloseHandle(windows.Handle(thread))
	}
}

// programs lists the processes of the console. Only a member can list them, so this
// process becomes one for the moment.
func (s *Server) programs() ([]uint32, error) {
	parent, err := parentOf(windows.GetCurrentProcessId())
	if err != nil {
		return nil, err
	}
	if ok, _, err := attachConsole.Call(uintptr(parent)); ok == 0 {
		return nil, fmt.Errorf("join the console of process %d: %w", parent, err)
	}
	defer func() { _, _, _ = freeConsole.Call() }()
	list := make([]uint32, 4096)
	n, _, err := consoleProcesses.Call(uintptr(unsafe.Pointer(&list[0])), uintptr(len(list)))
	if n == 0 || int(n) > len(list) {
		return nil, fmt.Errorf("list the console's processes: %w", err)
	}
	var others []uint32
	for _, pid := range list[:n] {
		if pid != windows.GetCurrentProcessId() {
			others = append(others, pid)
		}
	}
	return others, nil
}

// parentOf finds the process that started another one.
func parentOf(pid uint32) (uint32, error) {
	var info [6]uintptr // PROCESS_BASIC_INFORMATION
	p, err := windows.OpenProcess(windows.PROCESS_QUERY_INFORMATION, false, pid)
	if err != nil {
		return 0, err
	}
	defer func() { _ = windows.CloseHandle(p) }()
	err = windows.NtQueryInformationProcess(p, windows.ProcessBasicInformation, unsafe.Pointer(&info),
		uint32(unsafe.Sizeof(info)), nil)
	return uint32(info[5]), err
}
