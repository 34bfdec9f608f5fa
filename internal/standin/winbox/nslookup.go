// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"
)

// nslookupTimeout: two seconds and then twice as long, as Windows' nslookup.
const nslookupTimeout = 6 * time.Second

// nslookup resolves one name or address: nslookup [-option...] name [server].
func nslookup(ctx context.Context, env *Env) int {
	var args []string
	for _, a := range env.Args {
		if !strings.HasPrefix(a, "-") {
			args = append(args, a)
		}
	}
	if len(args) == 0 {
		env.errorf("*** this stand-in has no interactive mode: nslookup NAME [SERVER]\n")
		return 1
	}
	n, err := env.System.Network()
	if err != nil {
		n = Network{}
	}
	server := ""
	for _, a := range n.Adapters {
		if len(a.DNS) > 0 && server == "" {
			server = a.DNS[0].String()
		}
	}
	if len(args) > 1 {
		server = args[1]
	}
	res := net.DefaultResolver
	if server != "" {
		res = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(server, "53"))
		}}
	}
	env.printf("Server:  UnKnown\nAddress:  %s\n\n", server)
	ctx, cancel := context.WithTimeout(ctx, nslookupTimeout)
	defer cancel()
	if ip, err := netip.ParseAddr(args[0]); err == nil {
		names, err := res.LookupAddr(ctx, ip.String())
		if err != nil || len(names) == 0 {
			return nslookupFailed(env, args[0], err)
		}
		env.printf("Name:    %s\nAddress:  %s\n\n", strings.TrimSuffix(names[0], "."), ip)
		return 0
	}
	var addrs []netip.Addr
	var found string
	for _, name := range candidates(args[0], n.SearchList) {
		if addrs, err = res.LookupNetIP(ctx, "ip", name); err == nil {
			found = strings.TrimSuffix(name, ".")
			break
		}
	}
	if found == "" {
		return nslookupFailed(env, args[0], err)
	}
	label := "Address:  "
	if len(addrs) > 1 {
		label = "Addresses:  "
	}
	env.printf("Name:    %s\n%s%s\n\n", found, label, strings.Join(texts(unmapped(addrs)), "\n\t  "))
	return 0
}

// candidates returns the full names to ask for, in Windows' order: with each
// suffix, then as it stands.
func candidates(name string, search []string) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	var out []string
	for _, s := range search {
		out = append(out, name+"."+strings.TrimSuffix(s, ".")+".")
	}
	return append(out, name+".")
}

func unmapped(addrs []netip.Addr) []netip.Addr {
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	return addrs
}

func nslookupFailed(env *Env, name string, err error) int {
	reason := "Non-existent domain"
	var dns *net.DNSError
	if errors.As(err, &dns) && !dns.IsNotFound {
		reason = "Server failed"
		if dns.IsTimeout {
			env.printf("DNS request timed out.\n")
			reason = "Request to UnKnown timed-out"
			env.errorf("*** %s\n", reason)
			return 1
		}
	}
	env.errorf("*** UnKnown can't find %s: %s\n", name, reason)
	return 1
}
