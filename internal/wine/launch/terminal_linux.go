// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import "golang.org/x/sys/unix"

// rawTerminal makes a terminal on standard input pass everything on as it is:
// the console host does the echo, the line editing and Ctrl+C, as Windows'
// console does. Anything else on standard input stays unchanged.
func rawTerminal() {
	t, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return // no terminal
	}
	t.Iflag = 0
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	// The terminal may be gone by now; then its mode does not matter.
	_ = unix.IoctlSetTermios(0, unix.TCSETS, t)
}
