// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// setBucket bounds the sending rate of the inner end of an endpoint's pair, or takes the bound away. It is on that end,
// which no program of a container may change, so that queued packets stay in the pod.
func setBucket(s *kernel.Space, link netlink.Link, want *compile.Bucket) error {
	name := link.Attrs().Name
	have, err := findBucket(s, link)
	if err != nil {
		return fmt.Errorf("list queues of %s: %w", name, err)
	}
	if want == nil {
		if have == nil {
			return nil
		}
		if err := s.Netlink.QdiscDel(have); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("take the bound off %s: %w", name, err)
		}
		return nil
	}
	wanted := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0),
		},
		Rate: want.Rate, Limit: want.Queue, Buffer: netlink.Xmittime(want.Rate, want.Burst),
	}
	if have != nil && have.Rate == wanted.Rate && have.Limit == wanted.Limit && have.Buffer == wanted.Buffer {
		return nil
	}
	// A bucket of the same handle is changed in place and keeps its queue.
	if err := s.Netlink.QdiscReplace(wanted); err != nil {
		return fmt.Errorf("bound %s to %d bytes a second: %w", name, want.Rate, err)
	}
	return nil
}

// findBucket returns the link's token bucket, or nil.
func findBucket(s *kernel.Space, link netlink.Link) (*netlink.Tbf, error) {
	list, err := s.Netlink.QdiscList(link)
	if err != nil {
		return nil, err
	}
	for _, q := range list {
		if b, ok := q.(*netlink.Tbf); ok && b.Parent == netlink.HANDLE_ROOT {
			return b, nil
		}
	}
	return nil, nil
}
