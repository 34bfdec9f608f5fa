// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// checkProxy returns an error for a setting that compileProxies cannot express.
func checkProxy(v schema.L4WFPProxySetting) error {
	for _, port := range []string{v.InboundProxyPort, v.OutboundProxyPort} {
		if _, err := proxyPort(port); err != nil {
			return err
		}
	}
	t := v.FilterTuple
	if _, err := parseProtocols(t.Protocols); err != nil {
		return err
	}
	for _, ports := range []string{t.LocalPorts, t.RemotePorts} {
		if _, err := parsePorts(ports); err != nil {
			return err
		}
	}
	lists := slices.Concat(splitList(t.LocalAddresses), splitList(t.RemoteAddresses),
		v.InboundExceptions.IPAddressExceptions, v.OutboundExceptions.IPAddressExceptions)
	return checkPrefixes(lists...)
}

// proxyPort reads a port; the empty text means no port.
func proxyPort(text string) (uint16, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("proxy port %q", text)
	}
	return uint16(n), nil
}

// compileProxies lists the redirections of an endpoint's L4WFPPROXY policies by rising priority. groups returns the
// Unix groups of accounts by the beginning of their security identifiers; without any, no program is left alone.
func compileProxies(e *endpoint, groups func(sid string) []uint32, out *intent.Endpoint) {
	all := settings[schema.L4WFPProxySetting](e.Policies, schema.L4WFPProxyPolicy)
	slices.SortStableFunc(all, func(a, b schema.L4WFPProxySetting) int {
		return int(a.FilterTuple.Priority) - int(b.FilterTuple.Priority)
	})
	for _, v := range all {
		for _, side := range []struct {
			direction intent.Direction
			port      string
			except    schema.ProxyExceptions
		}{
			{intent.Out, v.OutboundProxyPort, v.OutboundExceptions},
			{intent.In, v.InboundProxyPort, v.InboundExceptions},
		} {
			port, err := proxyPort(side.port)
			if err != nil || port == 0 {
				continue
			}
			t := v.FilterTuple
			match, ok := compileACL(schema.ACLSetting{
				Direction: string(side.direction), Protocols: t.Protocols, Priority: t.Priority,
				LocalAddresses: t.LocalAddresses, RemoteAddresses: t.RemoteAddresses,
				LocalPorts: t.LocalPorts, RemotePorts: t.RemotePorts,
			}, nil)
			if !ok {
				continue
			}
			r := intent.Redirect{
				Match: match, Port: port, ExceptAddresses: parsePrefixes(side.except.IPAddressExceptions),
			}
			for _, p := range side.except.PortExceptions {
				// Microsoft's own example excepts 90001, which is not a port: it has no effect.
				if ports, err := parsePorts(p); err == nil {
					r.ExceptPorts = append(r.ExceptPorts, ports...)
				}
			}
			if v.UserSID != "" && groups != nil {
				r.ExceptGroups = groups(v.UserSID)
			}
			out.Redirects = append(out.Redirects, r)
		}
	}
}
