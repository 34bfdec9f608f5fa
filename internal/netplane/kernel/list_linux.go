// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// listTries is far more than a list of a busy machine needs; its links change some
// times a second, and reading them takes less than a millisecond.
const listTries = 100

// List returns the result of list: links, addresses, routes or neighbours. If they
// change while it reads them, the kernel reports it, and List reads them again.
func List[T any](list func() ([]T, error)) ([]T, error) {
	for try := 1; ; try++ {
		all, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == listTries {
			return all, err
		}
	}
}
