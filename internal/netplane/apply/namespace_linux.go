// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// namespaceSysctls are set in every HCN namespace before anything else.
var namespaceSysctls = []compile.Sysctl{
	// On Windows every program may open any port.
	{Path: "net/ipv4/ip_unprivileged_port_start", Value: "0"},
	// Echo requests need no right there either (icmp(7), ping_group_range).
	{Path: "net/ipv4/ping_group_range", Value: "0 2147483647"},
	// Links that come later have no IPv6 unless their endpoint has an address of
	// it; loopback keeps ::1.
	{Path: "net/ipv6/conf/default/disable_ipv6", Value: "1"},
}

// CreateNamespace makes the network namespace of an HCN namespace. It is a no-op if
// the namespace exists.
func (p *Plane) CreateNamespace(ctx context.Context, id string) error {
	if err := checkNamespaceID(id); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("create namespace %s: %w", id, err)
	}
	return kernel.CreateNamespace(p.NamespacePath(id), func() error {
		for _, s := range namespaceSysctls {
			if err := kernel.WriteSysctl(s.Path, s.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteNamespace removes the network namespace and the links into it. It is a
// no-op without the namespace.
func (p *Plane) DeleteNamespace(ctx context.Context, id string) error {
	if err := checkNamespaceID(id); err != nil {
		return fmt.Errorf("delete namespace: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete namespace %s: %w", id, err)
	}
	return kernel.DeleteNamespace(p.NamespacePath(id))
}

// Namespaces lists the ids of all namespaces in the directory, in lower case,
// including namespaces of which a crash or a reboot left only the file.
func (p *Plane) Namespaces(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	files, err := os.ReadDir(p.cfg.NetnsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var ids []string
	for _, f := range files {
		if f.Type().IsRegular() && checkNamespaceID(f.Name()) == nil {
			ids = append(ids, f.Name())
		}
	}
	return ids, nil
}

// NamespacePath returns the file of the namespace, for setns and for a container
// runtime's network namespace path.
func (p *Plane) NamespacePath(id string) string {
	return filepath.Join(p.cfg.NetnsDir, strings.ToLower(id))
}

// checkNamespaceID refuses ids that cannot be file names.
func checkNamespaceID(id string) error {
	if id == "" || id != filepath.Base(id) || strings.HasPrefix(id, ".") {
		return fmt.Errorf("namespace id %q: not a file name", id)
	}
	return nil
}

// Stats reads an endpoint's counters. An endpoint without a device has no counters.
func (p *Plane) Stats(ctx context.Context, endpointID string) (intent.Stats, error) {
	if err := ctx.Err(); err != nil {
		return intent.Stats{}, fmt.Errorf("read counters of endpoint %s: %w", endpointID, err)
	}
	link, err := p.space.FindLink(compile.LinkName(endpointID))
	if err != nil {
		return intent.Stats{}, fmt.Errorf("read counters of endpoint %s: %w", endpointID, err)
	}
	if link == nil || link.Attrs().Statistics == nil {
		return intent.Stats{}, nil
	}
	s := link.Attrs().Statistics
	if link.Type() != string(compile.Veth) { // an adapter of the host counts for itself
		return intent.Stats{
			BytesReceived: s.RxBytes, BytesSent: s.TxBytes, PacketsReceived: s.RxPackets, PacketsSent: s.TxPackets,
			DroppedPacketsIncoming: s.RxDropped, DroppedPacketsOutgoing: s.TxDropped,
		}, nil
	}
	// The host's end of the pair receives the endpoint's packets.
	return intent.Stats{
		BytesReceived: s.TxBytes, BytesSent: s.RxBytes, PacketsReceived: s.TxPackets, PacketsSent: s.RxPackets,
		DroppedPacketsIncoming: s.TxDropped, DroppedPacketsOutgoing: s.RxDropped,
	}, nil
}

// Uplink describes the host's adapter as it is.
func (p *Plane) Uplink(ctx context.Context) (intent.Uplink, error) {
	name := p.cfg.Uplink
	if err := ctx.Err(); err != nil {
		return intent.Uplink{}, fmt.Errorf("read uplink %s: %w", name, err)
	}
	link, err := p.space.FindLink(name)
	if err != nil {
		return intent.Uplink{}, fmt.Errorf("read uplink: %w", err)
	}
	if link == nil {
		return intent.Uplink{}, fmt.Errorf("read uplink: no link %s", name)
	}
	addresses, err := kernel.List(func() ([]netlink.Addr, error) {
		return p.space.Netlink.AddrList(link, netlink.FAMILY_ALL)
	})
	if err != nil {
		return intent.Uplink{}, fmt.Errorf("read uplink %s: list addresses: %w", name, err)
	}
	u := intent.Uplink{Name: name, MAC: link.Attrs().HardwareAddr.String()}
	for _, address := range addresses {
		a := kernel.Prefix(address.IPNet)
		switch {
		case a.Addr().Is4() && !u.Address.IsValid():
			u.Address = a
		case a.Addr().Is6() && !a.Addr().IsLinkLocalUnicast() && !u.Address6.IsValid():
			u.Address6 = a
		}
	}
	return u, nil
}
