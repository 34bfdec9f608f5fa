// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// config is the network configuration, with the keys of win-bridge (pkg/hns/netconf_windows.go and
// win-bridge_windows.go of plugins v1.9.1).
type config struct {
	types.PluginConf
	// APIVersion 2 selects the HCN interface.
	APIVersion    int           `json:"apiVersion"`
	Policies      []policy      `json:"policies"`
	RuntimeConfig runtimeConfig `json:"runtimeConfig"`
	// LoopbackDSR lets a pod reach itself by a Service with direct server return.
	LoopbackDSR bool `json:"loopbackDSR"`
	// IPMasqNetwork is a range to which the pod connects with its own address.
	IPMasqNetwork string `json:"ipMasqNetwork"`
}

type policy struct {
	Name  string          `json:"name"` // all others than EndpointPolicy are left out
	Value json.RawMessage `json:"value"`
}

type runtimeConfig struct {
	DNS struct {
		Servers  []string `json:"servers"`
		Searches []string `json:"searches"`
	} `json:"dns"`
	PortMappings []portMapping `json:"portMappings"`
}

type portMapping struct {
	HostPort      uint16 `json:"hostPort"`
	ContainerPort uint16 `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

func parse(stdin []byte) (config, error) {
	var c config
	if err := json.Unmarshal(stdin, &c); err != nil {
		return c, types.NewError(types.ErrDecodingFailure, "read the network configuration", err.Error())
	}
	if c.APIVersion != 2 {
		return c, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("apiVersion %d: want 2", c.APIVersion),
			"version 1 is for containers that Docker made")
	}
	return c, nil
}

// dns returns the resolver of a pod: the runtime's settings override the configuration.
func (c config) dns() schema.DNS {
	d := schema.DNS{Domain: c.DNS.Domain, Search: c.DNS.Search, ServerList: c.DNS.Nameservers, Options: c.DNS.Options}
	if s := c.RuntimeConfig.DNS.Servers; len(s) > 0 {
		d.ServerList = s
	}
	if s := c.RuntimeConfig.DNS.Searches; len(s) > 0 {
		d.Search = s
	}
	return d
}

// protocol returns the number in Windows Sockets, and false for protocols that win-bridge leaves
// out, such as SCTP.
func (m portMapping) protocol() (uint32, bool) {
	if n, err := strconv.ParseUint(m.Protocol, 0, 10); err == nil {
		return uint32(n), true
	}
	n, ok := map[string]uint32{"icmpv4": 1, "igmp": 2, "tcp": 6, "udp": 17, "icmpv6": 58}[strings.ToLower(m.Protocol)]
	return n, ok
}

// endpointPolicies returns the policies of an endpoint with the addresses.
func (c config) endpointPolicies(addresses []netip.Addr) ([]schema.Policy, error) {
	var list []schema.Policy
	for i, p := range c.Policies {
		if !strings.EqualFold(p.Name, "EndpointPolicy") {
			continue
		}
		var out schema.Policy
		if err := json.Unmarshal(p.Value, &out); err != nil {
			return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("policy %d", i), err.Error())
		}
		list = append(list, out)
	}
	add := func(kind string, settings any) error {
		content, err := json.Marshal(settings)
		if err != nil {
			return fmt.Errorf("make policy %s: %w", kind, err)
		}
		list = append(list, schema.Policy{Type: kind, Settings: content})
		return nil
	}
	var errs []error
	if n := c.IPMasqNetwork; n != "" && !mentions(list, n, func(s schema.OutBoundNATSetting) []string {
		return s.Exceptions
	}) {
		errs = append(errs, add(schema.OutBoundNATPolicy, schema.OutBoundNATSetting{Exceptions: []string{n},
			Flags: flags(strings.Contains(n, ":"))}))
	}
	for _, m := range c.portMappings(addresses) {
		errs = append(errs, add(schema.PortMappingPolicy, m))
	}
	for _, a := range addresses {
		if c.LoopbackDSR && !mentions(list, a.String(), func(s schema.OutBoundNATSetting) []string {
			return s.Destinations
		}) {
			errs = append(errs, add(schema.OutBoundNATPolicy,
				schema.OutBoundNATSetting{Destinations: []string{a.String()}, Flags: flags(a.Is6())}))
		}
	}
	return list, errors.Join(errs...)
}

// flags returns the NatFlags of a policy for IPv6 or IPv4.
func flags(v6 bool) uint32 {
	if v6 {
		return schema.NatIPv6
	}
	return 0
}

// mentions reports whether an OutBoundNAT policy lists the text.
func mentions(list []schema.Policy, text string, in func(schema.OutBoundNATSetting) []string) bool {
	return slices.ContainsFunc(list, func(p schema.Policy) bool {
		var s schema.OutBoundNATSetting
		return p.Type == schema.OutBoundNATPolicy && json.Unmarshal(p.Settings, &s) == nil &&
			slices.Contains(in(s), text)
	})
}

// portMappings returns a mapping for each port and each family of the addresses. Of a port with an address of the node,
// the family of that address counts (github.com/Azure/azure-container-networking, cni/network/network_windows.go,
// getEndpointPolicies: "if host ip is specified, we create a policy to match that ip only").
func (c config) portMappings(addresses []netip.Addr) []schema.PortMappingSetting {
	var list []schema.PortMappingSetting
	for _, v6 := range []bool{false, true} {
		if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Is6() == v6 }) {
			continue
		}
		for _, m := range c.RuntimeConfig.PortMappings {
			protocol, known := m.protocol()
			host, err := netip.ParseAddr(m.HostIP)
			if !known || err == nil && host.Unmap().Is6() != v6 {
				continue
			}
			list = append(list, schema.PortMappingSetting{Protocol: protocol, InternalPort: m.ContainerPort,
				ExternalPort: m.HostPort, VIP: m.HostIP, Flags: flags(v6)})
		}
	}
	return list
}
