// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CheckTunnels returns an error if the kernel has no VXLAN devices. It makes one in a namespace that
// ends with the thread.
func CheckTunnels() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("make a network namespace: %w", err)
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "probe"
			if err := netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: 1, Port: 4789}); err != nil {
				return fmt.Errorf("this kernel makes no VXLAN devices: %w", err)
			}
			return nil
		}()
	}()
	return <-done
}
