// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// terminal is the Linux terminal below the console. mullion-init has put it in
// raw mode.
type terminal struct {
	in, out windows.Handle
	input   chan []byte
}

func openTerminal() (*terminal, error) {
	in, err := windows.GetStdHandle(windows.STD_INPUT_HANDLE)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	out, err := windows.GetStdHandle(windows.STD_OUTPUT_HANDLE)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	return &terminal{in: in, out: out, input: make(chan []byte)}, nil
}

// read sends the terminal's input to the channel, which it closes when the
// terminal is gone.
func (t *terminal) read() {
	defer close(t.input)
	buffer := make([]byte, 4096)
	for {
		var n uint32
		if err := windows.ReadFile(t.in, buffer, &n, nil); err != nil || n == 0 {
			return
		}
		t.input <- append([]byte(nil), buffer[:n]...)
	}
}

// write sends data. It ignores errors: read notices when the terminal is gone.
func (t *terminal) write(data []byte) {
	for len(data) > 0 {
		var n uint32
		if err := windows.WriteFile(t.out, data, &n, nil); err != nil || n == 0 {
			return
		}
		data = data[n:]
	}
}
