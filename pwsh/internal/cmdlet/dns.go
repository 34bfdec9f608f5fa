// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// dnsCmdlets is Resolve-DnsName.
func dnsCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Resolve-DnsName", Params: "Name[]@0!< Type@1 Server[] DnsOnly?= CacheOnly?~ NoHostsFile?~ " +
			"QuickTimeout?= TcpOnly?~ LlmnrFallback?= NoIdn?=",
			Fidelity: "TTL is always 0",
			Process: func(c *interp.Invocation) error {
				for _, n := range c.Strs("Name") {
					if err := resolve(c, n); err != nil {
						if err := c.Error(err); err != nil {
							return err
						}
					}
				}
				return nil
			}},
	}
}

func dnsMissing(name string) error {
	return interp.Failf("System.ComponentModel.Win32Exception", "DNS_ERROR_RCODE_NAME_ERROR", "ResourceUnavailable",
		name, "%s : DNS name does not exist", name)
}

func dnsRecord(name, typ string, pairs ...any) *value.Object {
	o := value.NewObject("Microsoft.DnsClient.Commands.DnsRecord_"+typ,
		append([]any{"Name", name, "Type", typ, "TTL", int32(0), "Section", "Answer"}, pairs...)...)
	cols := []string{"Name", "Type", "TTL", "Section"}
	for i := 0; i < len(pairs); i += 2 {
		if k := pairs[i].(string); k != "Address" && k != "QueryType" && k != "Server" {
			cols = append(cols, k)
		}
	}
	return show(o, cols...)
}

func resolve(c *interp.Invocation, name string) error {
	if c.R.Handlers().Net == nil {
		return interp.NotImplemented("the network")
	}
	var n host.Resolver = c.R.Handlers().Net
	if servers := c.Strs("Server"); len(servers) > 0 {
		n = c.R.Handlers().Net.Server(servers[0])
		var err error
		if name, err = withSuffix(c, name); err != nil {
			return err
		}
	}
	return resolveBy(c, n, name, strings.ToUpper(c.Str("Type", "A_AAAA")))
}

// withSuffix completes a name without a dot, as Windows' client of DNS does.
func withSuffix(c *interp.Invocation, name string) (string, error) {
	list, err := adapters(c)
	if err != nil {
		return "", err
	}
	for _, a := range list {
		if a.Suffix != "" && !a.Loopback && !strings.Contains(name, ".") {
			return name + "." + a.Suffix, nil
		}
	}
	return name, nil
}

func resolveBy(c *interp.Invocation, n host.Resolver, name, typ string) error {
	ctx := c.R.Context()
	if a, err := netip.ParseAddr(name); err == nil && (typ == "A_AAAA" || typ == "PTR") {
		names, err := n.LookupAddr(ctx, a.String())
		if err != nil {
			return dnsMissing(name)
		}
		for _, host := range names {
			if err := c.Write(dnsRecord(name, "PTR", "NameHost", strings.TrimSuffix(host, "."))); err != nil {
				return err
			}
		}
		return nil
	}
	switch typ {
	case "A_AAAA", "A", "AAAA", "ALL", "ANY":
		return resolveHost(c, n, name, typ)
	case "CNAME":
		cname, err := n.LookupCNAME(ctx, name)
		if err != nil {
			return dnsMissing(name)
		}
		return c.Write(dnsRecord(name, "CNAME", "NameHost", strings.TrimSuffix(cname, ".")))
	case "TXT":
		list, err := n.LookupTXT(ctx, name)
		if err != nil {
			return dnsMissing(name)
		}
		for _, t := range list {
			if err := c.Write(dnsRecord(name, "TXT", "Strings", value.NewStrings([]string{t}))); err != nil {
				return err
			}
		}
		return nil
	case "SRV":
		list, err := n.LookupSRV(ctx, name)
		if err != nil {
			return dnsMissing(name)
		}
		for _, s := range list {
			if err := c.Write(dnsRecord(name, "SRV", "NameTarget", strings.TrimSuffix(s.Target, "."),
				"Priority", i32(int(s.Priority)), "Weight", i32(int(s.Weight)), "Port", i32(int(s.Port)))); err != nil {
				return err
			}
		}
		return nil
	case "MX":
		list, err := n.LookupMX(ctx, name)
		if err != nil {
			return dnsMissing(name)
		}
		for _, m := range list {
			if err := c.Write(dnsRecord(name, "MX", "NameExchange", strings.TrimSuffix(m.Host, "."),
				"Preference", i32(int(m.Pref)))); err != nil {
				return err
			}
		}
		return nil
	case "NS":
		list, err := n.LookupNS(ctx, name)
		if err != nil {
			return dnsMissing(name)
		}
		for _, m := range list {
			if err := c.Write(dnsRecord(name, "NS", "NameHost",
				strings.TrimSuffix(m.Host, "."))); err != nil {
				return err
			}
		}
		return nil
	}
	return interp.NotImplemented("Resolve-DnsName -Type " + typ)
}

func resolveHost(c *interp.Invocation, n host.Resolver, name, typ string) error {
	list, err := n.LookupHost(c.R.Context(), name)
	if err != nil {
		return dnsMissing(name)
	}
	for _, six := range []bool{true, false} {
		for _, a := range list {
			a = a.Unmap()
			if a.Is4() == six {
				continue
			}
			kind := map[bool]string{true: "AAAA", false: "A"}[six]
			if typ == "A" && six || typ == "AAAA" && !six {
				continue
			}
			if err := c.Write(dnsRecord(name, kind, "IPAddress", a.String(), "Address", a.String(),
				"QueryType", kind)); err != nil {
				return err
			}
		}
	}
	return nil
}

// connectionCmdlets try connections.
func connectionCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Test-NetConnection", Aliases: []string{"TNC"},
			Params: "ComputerName|RemoteAddress|cn@0< CommonTCPPort@1 Port|RemotePort:int InformationLevel " +
				"TraceRoute?~ Hops:int~ DiagnoseRouting?~",
			Fidelity: "without a port, reachability is judged by TCP (no ICMP): an answer or a refusal counts",
			Process:  testNetConnection},
		{Name: "Test-Connection", Params: "ComputerName|TargetName|cn|IPAddress[]@0!< Count:int Quiet? " +
			"TimeoutSeconds:int= Delay:int= BufferSize:int= TcpPort:int TimeToLive:int= IPv4? IPv6? Ping?= Repeat?~ " +
			"ResolveDestination?~", Fidelity: "reachability is judged by TCP (no ICMP): an answer or a refusal counts",
			Process: testConnection},
	}
}

// tryTimeout is how long a connection is tried. Test-NetConnection takes up to
// 21 s on Windows; probes have no such patience.
const tryTimeout = 4 * time.Second

// tryTCP reports whether a port takes a connection, and whether the host is
// there at all (it may refuse).
func tryTCP(c *interp.Invocation, host string, port int) (open, alive bool, local string, took time.Duration) {
	n := c.R.Handlers().Net
	ctx, cancel := context.WithTimeout(c.R.Context(), tryTimeout)
	defer cancel()
	start := time.Now()
	conn, err := n.Dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	took = time.Since(start)
	if err == nil {
		local, _, _ = net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close() // no data was sent
		return true, true, local, took
	}
	var ne net.Error
	return false, !errors.As(err, &ne) || strings.Contains(err.Error(), "refused"), "", took
}

func firstAddress(c *interp.Invocation, host string) (string, error) {
	n := c.R.Handlers().Net
	if n == nil {
		return "", interp.NotImplemented("the network")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String(), nil
	}
	list, err := n.LookupHost(c.R.Context(), host)
	if err != nil || len(list) == 0 {
		return "", dnsMissing(host)
	}
	for _, a := range list {
		if a.Unmap().Is4() {
			return a.Unmap().String(), nil
		}
	}
	return list[0].String(), nil
}

func testNetConnection(c *interp.Invocation) error {
	if c.R.Handlers().Net == nil {
		return interp.NotImplemented("the network")
	}
	host := c.Str("ComputerName", "internetbeacon.msedge.net")
	port := c.Int("Port", 0)
	if p := c.Str("CommonTCPPort", ""); p != "" {
		port = map[string]int{"HTTP": 80, "RDP": 3389, "SMB": 445, "WINRM": 5985}[strings.ToUpper(p)]
		if port == 0 {
			n, err := strconv.Atoi(p)
			if err != nil {
				return badArgument("CommonTCPPort", "Cannot validate argument on parameter 'CommonTCPPort'.")
			}
			port = n
		}
	}
	quiet := strings.EqualFold(c.Str("InformationLevel", ""), "Quiet")
	addr, err := firstAddress(c, host)
	if err != nil {
		if werr := c.Warning("Name resolution of " + host + " failed"); werr != nil {
			return werr
		}
		if quiet {
			return c.Write(false)
		}
		return c.Write(asList(value.NewObject("TestNetConnectionResult", "ComputerName", host, "RemoteAddress", nil,
			"InterfaceAlias", nil, "SourceAddress", nil, "PingSucceeded", false, "TcpTestSucceeded", false),
			"ComputerName", "RemoteAddress", "InterfaceAlias", "SourceAddress", "PingSucceeded"))
	}
	tryPort := port
	if port == 0 {
		tryPort = 80
	}
	open, alive, local, took := tryTCP(c, addr, tryPort)
	if port != 0 && !open {
		if werr := c.Warning("TCP connect to (" + addr + " : " + strconv.Itoa(port) + ") failed"); werr != nil {
			return werr
		}
	}
	if quiet {
		return c.Write(port != 0 && open || port == 0 && alive)
	}
	o := value.NewObject("TestNetConnectionResult", "ComputerName", host, "RemoteAddress", addr)
	cols := []string{"ComputerName", "RemoteAddress"}
	if port != 0 {
		o.Set("RemotePort", i32(port))
		cols = append(cols, "RemotePort")
	}
	alias := ""
	if list, err := adapters(c); err == nil {
		for _, a := range list {
			for _, p := range a.Addresses {
				if p.Addr().Unmap().String() == local {
					alias = a.Name
				}
			}
		}
	}
	o.Set("InterfaceAlias", alias)
	o.Set("SourceAddress", local)
	cols = append(cols, "InterfaceAlias", "SourceAddress")
	if port != 0 {
		o.Set("TcpTestSucceeded", open)
		return c.Write(asList(o, append(cols, "TcpTestSucceeded")...))
	}
	o.Set("PingSucceeded", alive)
	o.Set("PingReplyDetails (RTT)", strconv.FormatInt(took.Milliseconds(), 10)+" ms")
	return c.Write(asList(o, append(cols, "PingSucceeded", "PingReplyDetails (RTT)")...))
}

func testConnection(c *interp.Invocation) error {
	for _, host := range c.Strs("ComputerName") {
		addr, err := firstAddress(c, host)
		count := c.Int("Count", 4)
		if c.Switch("Quiet") {
			count = 1
		}
		for range max(count, 1) {
			var open, alive bool
			var took time.Duration
			if err == nil {
				open, alive, _, took = tryTCP(c, addr, c.Int("TcpPort", 80))
			}
			if c.Has("TcpPort") {
				alive = open
			}
			if c.Switch("Quiet") || c.Has("TcpPort") {
				if werr := c.Write(alive); werr != nil {
					return werr
				}
				break
			}
			if !alive {
				if werr := c.Error(interp.Failf("System.Net.NetworkInformation.PingException",
					"TestConnectionException", "ResourceUnavailable", host,
					"Testing connection to computer '%s' failed: Error due to lack of resources", host)); werr != nil {
					return werr
				}
				continue
			}
			o := value.NewObject("System.Management.ManagementObject#root\\cimv2\\Win32_PingStatus", "Source",
				hostname(c), "Destination", host, "Address", host, "IPV4Address", addr, "IPV6Address", "", "Bytes",
				int32(32), "ResponseTime", i32(int(math.Round(float64(took)/1e6))), "Time(ms)",
				i32(int(took.Milliseconds())), "StatusCode", int32(0), "Latency", took.Milliseconds(),
				"Status", "Success")
			if werr := c.Write(show(o, "Source", "Destination", "IPV4Address", "IPV6Address", "Bytes",
				"Time(ms)")); werr != nil {
				return werr
			}
		}
	}
	return nil
}

func hostname(c *interp.Invocation) string {
	if s := c.R.Handlers().System; s != nil {
		return s.Hostname()
	}
	return ""
}
