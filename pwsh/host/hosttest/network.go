// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hosttest

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// Network is a Network in memory: host names, adapters and routes. Connections
// are real and go over loopback.
type Network struct {
	Hosts      map[string][]netip.Addr
	Aliases    map[string]string // canonical names
	Texts      map[string][]string
	Services   map[string][]*net.SRV
	Mail       map[string][]*net.MX
	Servers    map[string][]*net.NS
	Interfaces []host.Adapter
	Table      []host.Route
	Protocols  []host.IPInterface
	// Others maps addresses to the DNS servers that can be queried there.
	Others map[string]host.Resolver
}

// Server returns one of Others, or a resolver without names.
func (f *Network) Server(server string) host.Resolver {
	if r, ok := f.Others[server]; ok {
		return r
	}
	return &Network{}
}

// Dial connects to the port on loopback; other addresses are refused.
func (*Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() {
		return nil, fmt.Errorf("dial %s: only loopback is there", address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

// Listen listens on loopback, whatever the host of the address.
func (*Network) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

func noHost(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// LookupHost looks a name up in Hosts.
func (f *Network) LookupHost(_ context.Context, name string) ([]netip.Addr, error) {
	if a, ok := f.Hosts[name]; ok {
		return a, nil
	}
	return nil, noHost(name)
}

// LookupAddr finds the name of an address in Hosts.
func (f *Network) LookupAddr(_ context.Context, addr string) ([]string, error) {
	for n, list := range f.Hosts {
		for _, a := range list {
			if a.String() == addr {
				return []string{n + "."}, nil
			}
		}
	}
	return nil, noHost(addr)
}

// LookupCNAME looks a name up in Aliases. A name in Hosts is its own.
func (f *Network) LookupCNAME(_ context.Context, name string) (string, error) {
	if to, ok := f.Aliases[name]; ok {
		return to + ".", nil
	}
	if _, ok := f.Hosts[name]; ok {
		return name + ".", nil
	}
	return "", noHost(name)
}

// LookupTXT looks a name up in Texts.
func (f *Network) LookupTXT(_ context.Context, name string) ([]string, error) {
	return records(f.Texts, name)
}

// LookupSRV looks a name up in Services.
func (f *Network) LookupSRV(_ context.Context, name string) ([]*net.SRV, error) {
	return records(f.Services, name)
}

// LookupMX looks a name up in Mail.
func (f *Network) LookupMX(_ context.Context, name string) ([]*net.MX, error) {
	return records(f.Mail, name)
}

// LookupNS looks a name up in Servers.
func (f *Network) LookupNS(_ context.Context, name string) ([]*net.NS, error) {
	return records(f.Servers, name)
}

func records[T any](table map[string][]T, name string) ([]T, error) {
	if list, ok := table[name]; ok {
		return list, nil
	}
	return nil, noHost(name)
}

// Adapters returns Interfaces.
func (f *Network) Adapters(context.Context) ([]host.Adapter, error) {
	return slices.Clone(f.Interfaces), nil
}

// Routes returns Table.
func (f *Network) Routes(context.Context) ([]host.Route, error) { return slices.Clone(f.Table), nil }

// AddRoute appends to Table. As on Windows, a second route with the same
// destination, hop and interface is refused.
func (f *Network) AddRoute(_ context.Context, r host.Route) error {
	for _, x := range f.Table {
		if x.Destination == r.Destination && x.NextHop == r.NextHop && x.Interface == r.Interface {
			return fmt.Errorf("add route: %w", fs.ErrExist)
		}
	}
	f.Table = append(f.Table, r)
	return nil
}

// DeleteRoute removes a route from Table.
func (f *Network) DeleteRoute(_ context.Context, r host.Route) error {
	n := len(f.Table)
	f.Table = slices.DeleteFunc(f.Table, func(x host.Route) bool {
		return x.Destination == r.Destination && x.NextHop == r.NextHop && x.Interface == r.Interface
	})
	if len(f.Table) == n {
		return fmt.Errorf("delete route: %w", fs.ErrNotExist)
	}
	return nil
}

// IPInterfaces returns Protocols.
func (f *Network) IPInterfaces(context.Context) ([]host.IPInterface, error) {
	return slices.Clone(f.Protocols), nil
}

// SetIPInterface changes one of Protocols.
func (f *Network) SetIPInterface(_ context.Context, c host.IPInterfaceChange) error {
	i := slices.IndexFunc(f.Protocols, func(p host.IPInterface) bool { return p.Index == c.Index && p.IPv6 == c.IPv6 })
	if i < 0 {
		return fmt.Errorf("change interface %d: %w", c.Index, fs.ErrNotExist)
	}
	p := &f.Protocols[i]
	if c.Metric != nil {
		p.Metric, p.AutomaticMetric = *c.Metric, false
	}
	for _, field := range []struct{ from, to *bool }{
		{c.AutomaticMetric, &p.AutomaticMetric}, {c.Forwarding, &p.Forwarding}, {c.WeakHostSend, &p.WeakHostSend},
		{c.WeakHostReceive, &p.WeakHostReceive},
	} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	return nil
}
