// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	cni "github.com/containernetworking/cni/pkg/version"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// Plugin has the commands of the plugin. Its methods are the functions that skel calls.
type Plugin struct {
	HNS hns.API
	// IPAM runs the IPAM plugin; nil means as a program of this machine.
	IPAM invoke.Exec
	// Out gets results.
	Out io.Writer
}

// endpointName returns the endpoint's name as win-bridge does (pkg/hns,
// ConstructEndpointName).
func endpointName(containerID, network string) string { return containerID + "_" + network }

// Add makes the endpoint of a pod and attaches it. An existing endpoint is attached again.
func (p Plugin) Add(args *skel.CmdArgs) error {
	ctx := context.Background()
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	n, err := p.network(ctx, c.Name)
	if err != nil {
		return err
	}
	e, made, err := p.ensure(ctx, c, n, args)
	if err != nil {
		return err
	}
	if err := move(ctx, p.HNS, schema.Add, args.Netns, e.ID); err != nil {
		if made {
			err = errors.Join(err, remove(ctx, p.HNS, e), p.release(ctx, c, args.StdinData))
		}
		return err
	}
	r, err := result(n, e)
	if err != nil {
		return err
	}
	versioned, err := r.GetAsVersion(c.CNIVersion)
	if err != nil {
		return fmt.Errorf("result for CNI %s: %w", c.CNIVersion, err)
	}
	return versioned.PrintTo(p.Out)
}

// network returns the network of the configuration, which must be of a type for pods of the node's own network.
func (p Plugin) network(ctx context.Context, name string) (schema.Network, error) {
	list, err := find[schema.Network](ctx, p.HNS, hns.Network, "Name", name)
	if err != nil {
		return schema.Network{}, err
	}
	if len(list) == 0 {
		return schema.Network{}, fmt.Errorf("HNS has no network %s", name)
	}
	if n := list[0]; n.Type != schema.L2Bridge && n.Type != schema.L2Tunnel {
		return schema.Network{}, fmt.Errorf("network %s is of type %s: want %s or %s", name, n.Type, schema.L2Bridge,
			schema.L2Tunnel)
	}
	return list[0], nil
}

// ensure returns the pod's endpoint on the network, and whether it was made now. One of the same name on another
// network is removed.
func (p Plugin) ensure(ctx context.Context, c config, n schema.Network, args *skel.CmdArgs) (e schema.Endpoint,
	made bool, err error) {
	name := endpointName(args.ContainerID, n.Name)
	list, err := find[schema.Endpoint](ctx, p.HNS, hns.Endpoint, "Name", name)
	if err != nil {
		return e, false, err
	}
	for _, have := range list {
		if strings.EqualFold(have.HostComputeNetwork, n.ID) {
			return have, false, nil
		}
		if err := remove(ctx, p.HNS, have); err != nil {
			return e, false, fmt.Errorf("endpoint of another network: %w", err)
		}
	}
	e, err = p.create(ctx, c, n, name, args.StdinData)
	if err != nil {
		return e, false, errors.Join(err, p.release(ctx, c, args.StdinData))
	}
	return e, true, nil
}

// create makes an endpoint with the addresses of the IPAM plugin. Without one HNS chooses an address.
func (p Plugin) create(ctx context.Context, c config, n schema.Network, name string, stdin []byte) (e schema.Endpoint,
	err error) {
	var addresses []netip.Prefix
	if !c.IPAM.IsEmpty() {
		if addresses, err = p.addresses(ctx, c.IPAM.Type, stdin); err != nil {
			return e, err
		}
	}
	want, err := describe(c, n, name, addresses)
	if err != nil {
		return e, err
	}
	settings, err := json.Marshal(want)
	if err != nil {
		return e, err
	}
	network, err := schema.ParseGUID(n.ID)
	if err != nil {
		return e, fmt.Errorf("network %s: %w", n.Name, err)
	}
	id, err := p.HNS.Create(ctx, hns.Endpoint, network, schema.GUID{}, string(settings))
	if err != nil {
		return e, fmt.Errorf("create endpoint %s: %w", name, err)
	}
	return read[schema.Endpoint](ctx, p.HNS, hns.Endpoint, id)
}

// addresses requests addresses for the pod from the IPAM plugin.
func (p Plugin) addresses(ctx context.Context, plugin string, stdin []byte) ([]netip.Prefix, error) {
	answer, err := invoke.DelegateAdd(ctx, plugin, stdin, p.IPAM)
	if err != nil {
		return nil, fmt.Errorf("IPAM plugin %s: %w", plugin, err)
	}
	r, err := types100.NewResultFromResult(answer)
	if err != nil {
		return nil, fmt.Errorf("IPAM plugin %s: read its result: %w", plugin, err)
	}
	var list []netip.Prefix
	for _, ip := range r.IPs {
		a, _ := netip.AddrFromSlice(ip.Address.IP)
		bits, _ := ip.Address.Mask.Size()
		list = append(list, netip.PrefixFrom(a.Unmap(), bits))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("IPAM plugin %s gave no address", plugin)
	}
	return list, nil
}

// release gives the addresses of a pod back.
func (p Plugin) release(ctx context.Context, c config, stdin []byte) error {
	if c.IPAM.IsEmpty() {
		return nil
	}
	if err := invoke.DelegateDel(ctx, c.IPAM.Type, stdin, p.IPAM); err != nil {
		return fmt.Errorf("IPAM plugin %s: %w", c.IPAM.Type, err)
	}
	return nil
}

// describe returns the endpoint of a pod. The next hop of each family is the node's own address in the pods' network,
// the second of the range, as in win-bridge.
func describe(c config, n schema.Network, name string, addresses []netip.Prefix) (schema.Endpoint, error) {
	e := schema.Endpoint{Name: name, HostComputeNetwork: n.ID, DNS: c.dns(), SchemaVersion: schema.V2()}
	var plain []netip.Addr
	routed := map[string]bool{}
	for _, a := range addresses {
		plain = append(plain, a.Addr())
		e.IPConfigurations = append(e.IPConfigurations,
			schema.IPConfig{IPAddress: a.Addr().String(), PrefixLength: uint8(a.Bits())})
		everywhere := "0.0.0.0/0"
		if a.Addr().Is6() {
			everywhere = "::/0"
		}
		if !routed[everywhere] {
			routed[everywhere] = true
			e.Routes = append(e.Routes, schema.Route{NextHop: a.Masked().Addr().Next().Next().String(),
				DestinationPrefix: everywhere})
		}
	}
	var err error
	e.Policies, err = c.endpointPolicies(plain)
	return e, err
}

// result returns the result of ADD from the pod's endpoint in HNS. For an existing endpoint, it equals the
// result of the first ADD.
func result(n schema.Network, e schema.Endpoint) (*types100.Result, error) {
	r := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: e.Name, Mac: e.MacAddress}},
		DNS: types.DNS{Domain: e.DNS.Domain, Search: e.DNS.Search, Nameservers: e.DNS.ServerList,
			Options: e.DNS.Options},
	}
	for _, c := range e.IPConfigurations {
		a, err := netip.ParseAddr(c.IPAddress)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
		mask := net.CIDRMask(prefixLength(n, a), a.BitLen())
		ip := &types100.IPConfig{Address: net.IPNet{IP: a.AsSlice(), Mask: mask}}
		for _, route := range e.Routes {
			hop, err := netip.ParseAddr(route.NextHop)
			everywhere := strings.HasSuffix(route.DestinationPrefix, "/0")
			if err == nil && everywhere && hop.Is4() == a.Is4() && ip.Gateway == nil {
				ip.Gateway = hop.AsSlice()
			}
		}
		r.IPs = append(r.IPs, ip)
	}
	return r, nil
}

// prefixLength returns the prefix length of the network's subnet with the address.
func prefixLength(n schema.Network, a netip.Addr) int {
	for _, ipam := range n.Ipams {
		for _, s := range ipam.Subnets {
			if p, err := netip.ParsePrefix(s.IPAddressPrefix); err == nil && p.Contains(a) {
				return p.Bits()
			}
		}
	}
	return a.BitLen()
}

// Del removes the endpoint of a pod and gives its addresses back. It succeeds if that is done already.
func (p Plugin) Del(args *skel.CmdArgs) error {
	ctx := context.Background()
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	list, err := find[schema.Endpoint](ctx, p.HNS, hns.Endpoint, "Name", endpointName(args.ContainerID, c.Name))
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := remove(ctx, p.HNS, e); err != nil {
			return err
		}
	}
	return p.release(ctx, c, args.StdinData)
}

// Check compares the endpoint of a pod with the result of its ADD.
func (p Plugin) Check(args *skel.CmdArgs) error {
	ctx := context.Background()
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if !c.IPAM.IsEmpty() {
		if err := invoke.DelegateCheck(ctx, c.IPAM.Type, args.StdinData, p.IPAM); err != nil {
			return fmt.Errorf("IPAM plugin %s: %w", c.IPAM.Type, err)
		}
	}
	if err := cni.ParsePrevResult(&c.PluginConf); err != nil {
		return types.NewError(types.ErrDecodingFailure, "read prevResult", err.Error())
	}
	if c.PrevResult == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "prevResult is missing", "")
	}
	want, err := types100.NewResultFromResult(c.PrevResult)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "read prevResult", err.Error())
	}
	name := endpointName(args.ContainerID, c.Name)
	list, err := find[schema.Endpoint](ctx, p.HNS, hns.Endpoint, "Name", name)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("HNS has no endpoint %s", name)
	}
	if !strings.EqualFold(list[0].HostComputeNamespace, args.Netns) {
		return fmt.Errorf("endpoint %s is in namespace %q: want %s", name, list[0].HostComputeNamespace, args.Netns)
	}
	for _, ip := range want.IPs {
		if !slices.ContainsFunc(list[0].IPConfigurations, func(have schema.IPConfig) bool {
			return ip.Address.IP.Equal(net.ParseIP(have.IPAddress))
		}) {
			return fmt.Errorf("endpoint %s does not have the address %s", name, ip.Address.IP)
		}
	}
	return nil
}

// GC removes the endpoints of pods that are gone.
func (p Plugin) GC(args *skel.CmdArgs) error {
	ctx := context.Background()
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	n, err := p.network(ctx, c.Name)
	if err != nil {
		return err
	}
	valid := map[string]bool{}
	for _, a := range c.ValidAttachments {
		valid[endpointName(a.ContainerID, n.Name)] = true
	}
	list, err := find[schema.Endpoint](ctx, p.HNS, hns.Endpoint, "VirtualNetwork", n.ID)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		if strings.HasSuffix(e.Name, endpointName("", n.Name)) && !valid[e.Name] {
			errs = append(errs, remove(ctx, p.HNS, e))
		}
	}
	if !c.IPAM.IsEmpty() {
		errs = append(errs, invoke.DelegateGC(ctx, c.IPAM.Type, args.StdinData, p.IPAM))
	}
	return errors.Join(errs...)
}

// notAvailable is the specification's code for a plugin that cannot serve ADD now; the library has no name for it.
const notAvailable = 50

// Status returns an error if pods cannot be added.
func (p Plugin) Status(args *skel.CmdArgs) error {
	ctx := context.Background()
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := p.network(ctx, c.Name); err != nil {
		return types.NewError(notAvailable, err.Error(), "")
	}
	if c.IPAM.IsEmpty() {
		return nil
	}
	return invoke.DelegateStatus(ctx, c.IPAM.Type, args.StdinData, p.IPAM)
}
