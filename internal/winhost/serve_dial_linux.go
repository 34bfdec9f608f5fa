// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Registries are reached from the machine's own network, not from the host's:
// a registry on the machine's loopback, a proxy or a VPN of the machine would
// be out of the host's reach, and a real server would reach them. Only `winhost
// serve` has the machine's network, and only its image puller uses it; no
// Windows program and no container does. The pod's image determines where it
// connects, as on every node: users who may create pods can make the node contact
// any address in the machine's network. See docs/internals/winhost.md.

// dialLimit bounds one connection attempt; Go's own default for HTTP.
const dialLimit = 30 * time.Second

// machineDialer opens connections from another network namespace.
type machineDialer struct {
	netns string // file
	dir   string // with resolv.conf and hosts
}

// dialContext has the signature that http.Transport expects.
func (d *machineDialer) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addrs {
		conn, err := d.dial(ctx, network, net.JoinHostPort(a, port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// lookup resolves a name as the machine would, by its files.
func (d *machineDialer) lookup(ctx context.Context, host string) ([]string, error) {
	if net.ParseIP(host) != nil {
		return []string{host}, nil
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []string{"127.0.0.1", "::1"}, nil // RFC 6761, section 6.3
	}
	if found := inHosts(d.read("hosts"), host); len(found) > 0 {
		return found, nil
	}
	servers := nameservers(d.read("resolv.conf"))
	if len(servers) == 0 {
		return nil, fmt.Errorf("look up %s: the machine has no name servers", host)
	}
	var next atomic.Uint32
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		// The resolver retries after a failure; then it is the next one's turn.
		server := servers[int(next.Add(1)-1)%len(servers)]
		return d.dial(ctx, network, net.JoinHostPort(server, "53"))
	}}
	// A trailing dot keeps the search list of this host out of it.
	return r.LookupHost(ctx, strings.TrimSuffix(host, ".")+".")
}

func (d *machineDialer) read(name string) string {
	content, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		return ""
	}
	return string(content)
}

// dial connects to a literal address from the other namespace.
func (d *machineDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := kernel.Dial(ctx, d.netns, network, address, dialLimit)
	if err != nil {
		return nil, fmt.Errorf("from the machine's network: %w", err)
	}
	return conn, nil
}

// nameservers of a resolv.conf(5).
func nameservers(conf string) []string {
	var list []string
	for line := range strings.Lines(conf) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "nameserver" {
			list = append(list, f[1])
		}
	}
	return list
}

// inHosts finds a name in a hosts(5).
func inHosts(hosts, name string) []string {
	var found []string
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		for i := 1; i < len(f); i++ {
			if strings.EqualFold(f[i], name) {
				found = append(found, f[0])
			}
		}
	}
	return found
}
