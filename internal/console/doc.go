// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package console is a Windows console without a window: screen buffers, a
// queue of input events, a line editor, and a renderer that shows the active
// screen buffer on a terminal. It is the logic of conhost.exe in containers
// (cmd/conhost); Wine's conhost.exe needs a desktop, ignores escape sequences in
// output, and does not follow changes of the terminal's size.
//
// A Console is a state machine. Programs' calls go in as a Request, the
// terminal's bytes through Input. TakeOutput, TakeReads and TakeControls return
// the effects to perform. The package does no I/O, so that all behaviour can be
// tested on any system.
//
// The model is the same as ConPTY's: the window of the active screen buffer is as
// large as the terminal, and only changes are sent.
//
// Sources: Microsoft's documentation of the console functions
// (learn.microsoft.com/windows/console) and of its escape sequences
// (console-virtual-terminal-sequences), and the messages between Wine's
// programs, server and console host (include/wine/condrv.h of Wine 10).
package console
