// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// A running cluster claims names on the machine, whatever its data directory: its
// own name, which is part of the names of cgroups, and its network. A claim is a
// Unix socket in the abstract namespace: the kernel removes it with its process,
// and it leaves no file.

// InUseError is returned if another cluster on this machine holds a name that
// this one needs.
type InUseError struct {
	What string // for people
	PID  int    // of the other's supervisor; 0 if unknown
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s: in use by another cluster on this machine, with another data directory (process %d)", e.What, e.PID)
}

func (c Config) nameClaim() claim {
	return claim{"@mullion/cluster/" + c.Name, fmt.Sprintf("take cluster name %q", c.Name)}
}

func (c Config) networkClaim() claim {
	n := c.Network()
	return claim{fmt.Sprintf("@mullion/network/%d", c.Index), fmt.Sprintf("take addresses %s", n.Nodes())}
}

// claim is a name that exists once on a machine.
type claim struct {
	socket, what string
}

// take holds the name until release is called or the process ends. The error
// is an *InUseError if another process has it.
func (c claim) take() (release func(), err error) {
	l, err := net.Listen("unix", c.socket)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, pid := c.taken()
		return nil, &InUseError{c.what, pid}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.what, err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // released
			}
			_ = conn.Close() // the question was only whether we are here
		}
	}()
	return func() { _ = l.Close() }, nil // closing it is the release
}

// taken reports whether a process holds the name, and which one.
func (c claim) taken() (taken bool, pid int) {
	conn, err := net.Dial("unix", c.socket)
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED), 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return true, 0
	}
	// An error leaves the number out of a message.
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return true, pid
}

// takeAll claims all names of a running cluster.
func takeAll(claims ...claim) (release func(), err error) {
	var taken []func()
	release = func() {
		for _, r := range taken {
			r()
		}
	}
	for _, c := range claims {
		r, err := c.take()
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, r)
	}
	return release, nil
}
