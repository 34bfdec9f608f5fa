// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// FakeEnv is an Environment of its own; names have no case, as on Windows.
type FakeEnv map[string]string

func (f FakeEnv) key(name string) string {
	for k := range f {
		if strings.EqualFold(k, name) {
			return k
		}
	}
	return name
}

// Get reads a variable.
func (f FakeEnv) Get(name string) (string, bool) { v, ok := f[f.key(name)]; return v, ok }

// Set writes a variable.
func (f FakeEnv) Set(name, value string) error { f[f.key(name)] = value; return nil }

// Unset removes a variable.
func (f FakeEnv) Unset(name string) error { delete(f, f.key(name)); return nil }

// List gives NAME=value.
func (f FakeEnv) List() []string {
	var out []string
	for k, v := range f {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return out
}

// FakeNetwork is a Network of tables: names, adapters and routes. Sockets are
// the loopback's own.
type FakeNetwork struct {
	Hosts      map[string][]netip.Addr
	Interfaces []Adapter
	Table      []Route
}

// Dial connects on loopback.
func (*FakeNetwork) Dial(ctx context.Context, network, address string) (net.Conn, error) {
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

// Listen listens on loopback, whatever the host.
func (*FakeNetwork) Listen(ctx context.Context, network, address string) (net.Listener, error) {
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

// LookupHost reads Hosts.
func (f *FakeNetwork) LookupHost(_ context.Context, name string) ([]netip.Addr, error) {
	if a, ok := f.Hosts[name]; ok {
		return a, nil
	}
	return nil, noHost(name)
}

// LookupAddr finds the name of an address in Hosts.
func (f *FakeNetwork) LookupAddr(_ context.Context, addr string) ([]string, error) {
	for n, list := range f.Hosts {
		for _, a := range list {
			if a.String() == addr {
				return []string{n + "."}, nil
			}
		}
	}
	return nil, noHost(addr)
}

// LookupCNAME knows the names of Hosts as their own.
func (f *FakeNetwork) LookupCNAME(_ context.Context, name string) (string, error) {
	if _, ok := f.Hosts[name]; ok {
		return name + ".", nil
	}
	return "", noHost(name)
}

// LookupTXT knows nothing.
func (*FakeNetwork) LookupTXT(_ context.Context, name string) ([]string, error) {
	return nil, noHost(name)
}

// LookupSRV knows nothing.
func (*FakeNetwork) LookupSRV(_ context.Context, name string) ([]*net.SRV, error) {
	return nil, noHost(name)
}

// LookupMX knows nothing.
func (*FakeNetwork) LookupMX(_ context.Context, name string) ([]*net.MX, error) {
	return nil, noHost(name)
}

// LookupNS knows nothing.
func (*FakeNetwork) LookupNS(_ context.Context, name string) ([]*net.NS, error) {
	return nil, noHost(name)
}

// Adapters are the Interfaces.
func (f *FakeNetwork) Adapters(context.Context) ([]Adapter, error) {
	return slices.Clone(f.Interfaces), nil
}

// Routes are the Table.
func (f *FakeNetwork) Routes(context.Context) ([]Route, error) { return slices.Clone(f.Table), nil }

// AddRoute appends to the Table; a second one with the same destination and
// hop is refused, as Windows does.
func (f *FakeNetwork) AddRoute(_ context.Context, r Route) error {
	for _, x := range f.Table {
		if x.Destination == r.Destination && x.NextHop == r.NextHop && x.Interface == r.Interface {
			return errors.New("Instance MSFT_NetRoute already exists")
		}
	}
	f.Table = append(f.Table, r)
	return nil
}

// DeleteRoute removes from the Table.
func (f *FakeNetwork) DeleteRoute(_ context.Context, r Route) error {
	n := len(f.Table)
	f.Table = slices.DeleteFunc(f.Table, func(x Route) bool {
		return x.Destination == r.Destination && x.NextHop == r.NextHop && x.Interface == r.Interface
	})
	if len(f.Table) == n {
		return errors.New("no such route")
	}
	return nil
}

// SetForwarding changes an adapter.
func (f *FakeNetwork) SetForwarding(_ context.Context, index int, ipv6, on bool) error {
	for i := range f.Interfaces {
		if f.Interfaces[i].Index == index {
			if ipv6 {
				f.Interfaces[i].Forward6 = on
			} else {
				f.Interfaces[i].Forward4 = on
			}
			return nil
		}
	}
	return fmt.Errorf("no interface %d", index)
}

// FakeRegistry is a Registry in memory: values by their key's path.
type FakeRegistry map[string]map[string]RegValue

func (f FakeRegistry) find(path string) (string, bool) {
	for k := range f {
		if strings.EqualFold(k, path) {
			return k, true
		}
	}
	return path, false
}

var errNoKey = errors.New("the key does not exist")

// Exists says whether a key is there.
func (f FakeRegistry) Exists(path string) bool { _, ok := f.find(path); return ok }

// Keys lists the keys right under one.
func (f FakeRegistry) Keys(path string) ([]string, error) {
	if !f.Exists(path) {
		return nil, errNoKey
	}
	var out []string
	for k := range f {
		if len(k) > len(path)+1 && strings.EqualFold(k[:len(path)+1], path+`\`) && !strings.Contains(k[len(path)+1:], `\`) {
			out = append(out, k[len(path)+1:])
		}
	}
	sort.Strings(out)
	return out, nil
}

// Values lists a key's values.
func (f FakeRegistry) Values(path string) ([]RegValue, error) {
	k, ok := f.find(path)
	if !ok {
		return nil, errNoKey
	}
	var out []RegValue
	for _, v := range f[k] {
		out = append(out, v)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// CreateKey makes a key and those above it.
func (f FakeRegistry) CreateKey(path string) error {
	for i := range path + `\` {
		if i == len(path) || path[i] == '\\' {
			if k, ok := f.find(path[:i]); !ok {
				f[k] = map[string]RegValue{}
			}
		}
	}
	return nil
}

// DeleteKey removes a key.
func (f FakeRegistry) DeleteKey(path string) error {
	k, ok := f.find(path)
	if !ok {
		return errNoKey
	}
	delete(f, k)
	return nil
}

// SetValue writes a value.
func (f FakeRegistry) SetValue(path string, v RegValue) error {
	k, ok := f.find(path)
	if !ok {
		return errNoKey
	}
	f[k][strings.ToLower(v.Name)] = v
	return nil
}

// DeleteValue removes a value.
func (f FakeRegistry) DeleteValue(path, name string) error {
	k, ok := f.find(path)
	if !ok {
		return errNoKey
	}
	if _, ok := f[k][strings.ToLower(name)]; !ok {
		return errNoKey
	}
	delete(f[k], strings.ToLower(name))
	return nil
}
