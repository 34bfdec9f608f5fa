// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// nslookupTimeout: two seconds and then twice as long, as Windows' nslookup.
const nslookupTimeout = 6 * time.Second

// query is one call: nslookup [-type=TYPE] name [server].
type query struct{ kind, name, server string }

func parseQuery(args []string) (query, bool) {
	q := query{kind: "a+aaaa"}
	var words []string
	for _, a := range args {
		option, found := strings.CutPrefix(strings.ToLower(a), "-")
		if !found {
			words = append(words, a)
			continue
		}
		name, value, _ := strings.Cut(option, "=")
		if slices.Contains([]string{"type", "ty", "q", "query", "querytype"}, name) && value != "" {
			q.kind = value
		}
	}
	if len(words) == 0 || len(words) > 2 {
		return q, false
	}
	q.name = words[0]
	if len(words) == 2 {
		q.server = words[1]
	}
	return q, true
}

// nslookup queries a server for one name or address. As on Windows, it sends its
// own queries and doesn't use the system's resolver: it appends suffixes to names
// with dots, and doesn't read the hosts file.
func nslookup(ctx context.Context, env *Env) int {
	q, ok := parseQuery(env.Args)
	if !ok {
		env.errorf("*** this stand-in has no interactive mode: nslookup [-type=TYPE] NAME [SERVER]\n")
		return 1
	}
	adapters, _ := env.Host.Net.Adapters(ctx) // without adapters there is no server
	for _, a := range adapters {
		if len(a.DNS) > 0 && q.server == "" {
			q.server = a.DNS[0].String()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, nslookupTimeout)
	defer cancel()
	server, err := nslookupServer(ctx, env, q.server)
	if err != nil {
		return 1
	}
	res := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(server, "53"))
	}}
	title := "UnKnown"
	if names, err := res.LookupAddr(ctx, server); err == nil && len(names) > 0 {
		title = strings.TrimSuffix(names[0], ".")
	}
	env.printf("Server:  %s\nAddress:  %s\n\n", title, server)
	names := candidates(q.name, searchList(env))
	if ip, err := netip.ParseAddr(q.name); err == nil {
		q.kind, names = "address", []string{ip.String()}
	}
	for _, name := range names {
		var text string
		if text, err = answer(ctx, res, q.kind, name); err == nil {
			env.printf("%s\n", text)
			return 0
		}
	}
	return nslookupFailed(env, title, q.name, err)
}

// nslookupServer returns the address of the server, which may be given by name.
func nslookupServer(ctx context.Context, env *Env, server string) (string, error) {
	if _, err := netip.ParseAddr(server); err == nil {
		return server, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", server)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		env.errorf("*** Can't find server address for '%s':\n", server)
		return "", err
	}
	return addrs[0].Unmap().String(), nil
}

// answer queries the records of a kind and returns them as Windows prints them.
func answer(ctx context.Context, res *net.Resolver, kind, name string) (string, error) {
	shown := strings.TrimSuffix(name, ".")
	bare := func(host string) string { return strings.TrimSuffix(host, ".") }
	var b strings.Builder
	var err error
	switch kind {
	case "address":
		var names []string
		if names, err = res.LookupAddr(ctx, name); err == nil {
			return fmt.Sprintf("Name:    %s\nAddress:  %s\n", bare(names[0]), name), nil
		}
	case "a+aaaa", "a", "aaaa", "any", "all":
		return addressAnswer(ctx, res, kind, name)
	case "cname":
		var target string
		if target, err = res.LookupCNAME(ctx, name); err == nil && !strings.EqualFold(bare(target), shown) {
			fmt.Fprintf(&b, "%s\tcanonical name = %s\n", shown, bare(target))
		}
	case "mx":
		var list []*net.MX
		list, err = res.LookupMX(ctx, name)
		for _, m := range list {
			fmt.Fprintf(&b, "%s\tMX preference = %d, mail exchanger = %s\n", shown, m.Pref, bare(m.Host))
		}
	case "ns":
		var list []*net.NS
		list, err = res.LookupNS(ctx, name)
		for _, m := range list {
			fmt.Fprintf(&b, "%s\tnameserver = %s\n", shown, bare(m.Host))
		}
	case "txt":
		var list []string
		list, err = res.LookupTXT(ctx, name)
		for _, t := range list {
			fmt.Fprintf(&b, "%s\ttext =\n\n\t%q\n", shown, t)
		}
	case "srv":
		var list []*net.SRV
		_, list, err = res.LookupSRV(ctx, "", "", name)
		for _, v := range list {
			fmt.Fprintf(&b, "%s\tSRV service location:\n\t  priority       = %d\n\t  weight         = %d\n"+
				"\t  port           = %d\n\t  svr hostname   = %s\n", shown, v.Priority, v.Weight, v.Port,
				bare(v.Target))
		}
	default:
		return "", fmt.Errorf("unknown query type: %s", kind)
	}
	return b.String(), err
}

func addressAnswer(ctx context.Context, res *net.Resolver, kind, name string) (string, error) {
	network := map[string]string{"a": "ip4", "aaaa": "ip6"}[kind]
	addrs, err := res.LookupNetIP(ctx, cmp.Or(network, "ip"), name)
	if err != nil {
		return "", err
	}
	label := "Address:  "
	if len(addrs) > 1 {
		label = "Addresses:  "
	}
	return fmt.Sprintf("Name:    %s\n%s%s\n", strings.TrimSuffix(name, "."), label,
		strings.Join(texts(unmapped(addrs), netip.Addr.String), "\n\t  ")), nil
}

// candidates returns the full names to query, in Windows' order: with each
// suffix, then unchanged.
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

func nslookupFailed(env *Env, server, name string, err error) int {
	reason := "Non-existent domain"
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsNotFound {
		reason = "Server failed"
		if dns.IsTimeout {
			env.printf("DNS request timed out.\n")
			reason = "Request to " + server + " timed-out"
			env.errorf("*** %s\n", reason)
			return 1
		}
	}
	env.errorf("*** %s can't find %s: %s\n", server, name, reason)
	return 1
}
