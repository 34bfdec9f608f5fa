// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build linux

// Command mullion-pause is the only program of the sandbox image of Linux workers: it
// holds a pod's namespaces, and waits. As process 1 of a pod with
// shareProcessNamespace it buries the pod's orphans.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			// An error means that no child is left.
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
}
