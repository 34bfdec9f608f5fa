// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command conhost is conhost.exe of the emulated hosts and their containers,
// which Wine starts for each console. Its logic is in internal/console.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/internal/console"
	"github.com/mullion-k8s/mullion/internal/console/condrv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "conhost:", err)
		os.Exit(1)
	}
}

// options holds the options that Wine's kernelbase.dll passes
// (dlls/kernelbase/console.c, create_pseudo_console and alloc_console).
type options struct {
	server   windows.Handle
	size     console.Size
	terminal bool // standard input and output are one
}

func parse(args []string) (options, error) {
	var o options
	number := func(i int) (int, error) {
		if i >= len(args) {
			return 0, fmt.Errorf("%s needs a number", args[i-1])
		}
		n, err := strconv.ParseInt(args[i], 0, 32)
		if err != nil {
			return 0, fmt.Errorf("%s %s: not a number", args[i-1], args[i])
		}
		return int(n), nil
	}
	for i := 0; i < len(args); i++ {
		var err error
		n := 0
		switch args[i] {
		case "--headless":
		case "--unix":
			o.terminal = true
		case "--width", "--height", "--server", "--signal":
			i++
			n, err = number(i)
		default:
			err = fmt.Errorf("unknown option %s", args[i])
		}
		if err != nil {
			return o, err
		}
		switch args[max(0, i-1)] {
		case "--width":
			o.size.Width = n
		case "--height":
			o.size.Height = n
		case "--server":
			o.server = windows.Handle(n)
		}
	}
	if o.server == 0 {
		return o, errors.New("no console: only the system starts this program")
	}
	return o, nil
}

// sequenceWait is the time limit for the rest of an escape sequence. A terminal
// sends a sequence in one piece, but network packets may split it.
const sequenceWait = 50 * time.Millisecond

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	server, err := condrv.Open(o.server)
	if err != nil {
		return err
	}
	h := host{server: server, console: console.New(o.size, o.terminal, condrv.Pages{})}
	if o.terminal {
		if h.terminal, err = openTerminal(); err != nil {
			return err
		}
	}
	return h.loop()
}

// host connects a console to its server and its terminal.
type host struct {
	server   *condrv.Server
	console  *console.Console
	terminal *terminal // nil without a terminal
	signaled bool
	closed   <-chan error // not nil: the programs are being ended
}

func (h *host) loop() error {
	ready, more := make(chan error), make(chan struct{})
	go func() {
		for {
			ready <- h.server.Wait()
			<-more
		}
	}()
	if h.terminal != nil {
		go h.terminal.read()
	}
	var pause <-chan time.Time
	for {
		var input <-chan []byte
		if h.terminal != nil && !h.console.Full() {
			input = h.terminal.input
		}
		select {
		case err := <-ready:
			if err != nil {
				return err
			}
			ended, err := h.serve()
			if ended || err != nil {
				return err
			}
			more <- struct{}{}
		case data, ok := <-input:
			if !ok {
				h.terminal = nil
				h.close()
				break
			}
			h.console.Input(data)
			if pause = nil; h.console.Waiting() {
				pause = time.After(sequenceWait)
			}
		case err := <-h.closed:
			return err
		case <-pause:
			pause = nil
			h.console.InputPaused()
		}
		if err := h.settle(); err != nil {
			return err
		}
	}
}

// close ends the programs, because the terminal is gone. Their calls are still handled
// meanwhile.
func (h *host) close() {
	if h.closed != nil {
		return
	}
	closed := make(chan error, 1)
	h.closed = closed
	go func() { closed <- h.server.Control(console.CtrlClose) }()
}

// serve handles the pending calls of programs. ended reports that the last program has
// exited.
func (h *host) serve() (ended bool, err error) {
	var answer console.Reply
	for {
		h.signaled = h.console.Signaled()
		r, ok, err := h.server.Next(answer, h.signaled)
		if err != nil {
			h.show()
			return true, nil //nolint:nilerr // this is how the server reports that no process has the console any more
		}
		if !ok {
			return false, nil
		}
		if answer = h.console.Do(r); answer.Status == console.StatusPending {
			answer = console.Reply{}
			h.answerReads()
		}
	}
}

// answerReads completes the read calls whose input has arrived.
func (h *host) answerReads() {
	for _, a := range h.console.TakeReads() {
		h.signaled = h.console.Signaled()
		h.server.Answer(a, h.signaled)
	}
}

// settle performs the effects that the last step requested.
func (h *host) settle() error {
	// The event comes first: a program whose read ends without text checks whether it was
	// interrupted.
	for _, c := range h.console.TakeControls() {
		if c == console.CtrlClose {
			h.close()
		} else if err := h.server.Control(c); err != nil {
			return err
		}
	}
	h.answerReads()
	if s := h.console.Signaled(); s != h.signaled && !h.console.Reading() {
		h.signaled = s
		h.server.Signal(s)
	}
	h.show()
	return nil
}

func (h *host) show() {
	if h.terminal != nil {
		h.terminal.write(h.console.TakeOutput())
	}
}
