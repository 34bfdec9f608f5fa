// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// isType compares policy types: real configurations spell them "SDNROUTE",
// "SDNRoute", "OutBoundNAT", "OutboundNAT" (rule G14).
func isType(p schema.Policy, name string) bool { return strings.EqualFold(p.Type, name) }

// settings yields the settings of the policies of one type. Policies are checked
// when they are stored, so one that does not decode is not there.
func settings[T any](policies []schema.Policy, name string) []T {
	var out []T
	for _, p := range policies {
		if isType(p, name) {
			var v T
			if json.Unmarshal(orEmpty(p.Settings), &v) == nil {
				out = append(out, v)
			}
		}
	}
	return out
}

// setting returns the first of settings.
func setting[T any](policies []schema.Policy, name string) (v T, ok bool) {
	if all := settings[T](policies, name); len(all) > 0 {
		return all[0], true
	}
	return v, false
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

func newPolicy(name string, settings any) schema.Policy {
	b, err := json.Marshal(settings)
	if err != nil {
		panic("encode policy " + name + ": " + err.Error()) // only plain structs come here
	}
	return schema.Policy{Type: name, Settings: b}
}

// checkPolicies refuses unknown types and settings that do not decode or that
// the data plane could not carry out.
func checkPolicies(policies []schema.Policy, known []string) error {
	for _, p := range policies {
		if !slices.ContainsFunc(known, func(k string) bool { return isType(p, k) }) {
			return hresult.Errorf(hresult.InvalidPolicyType, "policy type %q", p.Type)
		}
		if err := checkSettings(p); err != nil {
			return hresult.Errorf(hresult.InvalidPolicy, "policy %s: %w", p.Type, err)
		}
	}
	return nil
}

func checkSettings(p schema.Policy) error {
	raw := orEmpty(p.Settings)
	switch {
	case isType(p, schema.PortMappingPolicy):
		return decodeAnd(raw, func(v schema.PortMappingSetting) error { return checkAddresses(v.VIP) })
	case isType(p, schema.OutBoundNATPolicy):
		return decodeAnd(raw, func(v schema.OutBoundNATSetting) error {
			if err := checkAddresses(v.VirtualIP); err != nil {
				return err
			}
			return checkPrefixes(append(slices.Clone(v.Exceptions), v.Destinations...)...)
		})
	case isType(p, schema.SDNRoutePolicy):
		return decodeAnd(raw, func(v schema.SDNRouteSetting) error {
			if err := checkAddresses(v.NextHop); err != nil {
				return err
			}
			return checkPrefixes(v.DestinationPrefix)
		})
	case isType(p, schema.RemoteSubnetRoutePolicy):
		return decodeAnd(raw, func(v schema.RemoteSubnetRouteSetting) error {
			if err := checkAddresses(v.ProviderAddress); err != nil {
				return err
			}
			return checkPrefixes(v.DestinationPrefix)
		})
	case isType(p, schema.ACLPolicy), isType(p, schema.NetworkACLPolicy):
		return decodeAnd(raw, checkACL)
	case isType(p, schema.TierACLPolicy):
		return decodeAnd(raw, func(v schema.TierACLSetting) error {
			for _, rule := range v.ACLs() {
				if err := checkACL(rule); err != nil {
					return err
				}
			}
			return nil
		})
	case isType(p, schema.ProviderAddressPolicy):
		return decodeAnd(raw, func(v schema.ProviderAddressSetting) error { return checkAddresses(v.ProviderAddress) })
	case isType(p, schema.L4WFPProxyPolicy):
		return decodeAnd(raw, checkProxy)
	case isType(p, schema.QOSPolicy):
		return decodeAnd(raw, func(schema.QOSSetting) error { return nil })
	case isType(p, schema.EncapOverheadPolicy):
		return decodeAnd(raw, func(schema.EncapOverheadSetting) error { return nil })
	case isType(p, schema.VSIDPolicy), isType(p, schema.VLANPolicy):
		return decodeAnd(raw, func(schema.IsolationSetting) error { return nil })
	case isType(p, schema.VxlanPortPolicy):
		return decodeAnd(raw, func(schema.VxlanPortSetting) error { return nil })
	case isType(p, schema.SetPolicyPolicy):
		return decodeAnd(raw, func(schema.SetPolicySetting) error { return nil })
	case isType(p, schema.DrMacAddressPolicy):
		return decodeAnd(raw, func(v schema.DrMacAddressSetting) error {
			_, err := canonicalMAC(v.Address)
			return err
		})
	}
	return decodeAnd(raw, func(map[string]any) error { return nil })
}

func decodeAnd[T any](raw json.RawMessage, check func(T) error) error {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return check(v)
}

// checkAddresses accepts the empty string.
func checkAddresses(addrs ...string) error {
	for _, a := range addrs {
		if a == "" {
			continue
		}
		if _, err := netip.ParseAddr(a); err != nil {
			return err
		}
	}
	return nil
}

func checkPrefixes(prefixes ...string) error {
	for _, p := range prefixes {
		if p == "" {
			continue
		}
		if _, err := parsePrefix(p); err != nil {
			return err
		}
	}
	return nil
}

// parsePrefix reads a prefix, or an address as the prefix of its full length.
func parsePrefix(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	return p.Masked(), nil
}

// samePolicy compares type and settings, the latter as JSON values.
func samePolicy(a, b schema.Policy) bool {
	if !strings.EqualFold(a.Type, b.Type) {
		return false
	}
	if isType(a, schema.RemoteSubnetRoutePolicy) {
		// The prefix identifies a remote subnet: flannel removes the old route of a
		// prefix whatever its other settings are.
		x, _ := setting[schema.RemoteSubnetRouteSetting]([]schema.Policy{a}, a.Type)
		y, _ := setting[schema.RemoteSubnetRouteSetting]([]schema.Policy{b}, b.Type)
		return x.DestinationPrefix == y.DestinationPrefix
	}
	if isType(a, schema.SetPolicyPolicy) {
		x, _ := setting[schema.SetPolicySetting]([]schema.Policy{a}, a.Type)
		y, _ := setting[schema.SetPolicySetting]([]schema.Policy{b}, b.Type)
		return x.ID == y.ID && x.Name == y.Name
	}
	return bytes.Equal(normalJSON(a.Settings), normalJSON(b.Settings))
}

func normalJSON(raw json.RawMessage) []byte {
	var v any
	if json.Unmarshal(orEmpty(raw), &v) != nil {
		return raw
	}
	b, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return b
}

// modified returns an object as a Modify call leaves it: a copy of old, which may be
// nil, with other policies, of the known types.
func modified[T any](kind hns.Kind, id, settings string, old *T, policies func(*T) *[]schema.Policy,
	known []string) (*T, error) {
	var req schema.ModifyRequest
	if err := decode(settings, &req); err != nil {
		return nil, err
	}
	var change schema.PolicyRequest
	about := strings.EqualFold(req.ResourceType, schema.ResourcePolicy)
	if about {
		if err := decode(string(orEmpty(req.Settings)), &change); err != nil {
			return nil, err
		}
	}
	if old == nil {
		return nil, notFound(kind, id)
	}
	if !about {
		return nil, hresult.Errorf(hresult.RequestUnsupported, "modify %s of %s %s", req.ResourceType, kind, id)
	}
	if err := checkPolicies(change.Policies, known); err != nil {
		return nil, err
	}
	after := *old
	var err error
	*policies(&after), err = modifyPolicies(*policies(old), req.RequestType, change.Policies)
	return &after, err
}

// modifyPolicies returns the list after a request of the type. Add appends missing
// policies, Remove takes away existing ones, Update and Refresh replace all
// policies of the types that the request names.
func modifyPolicies(have []schema.Policy, request schema.RequestType, change []schema.Policy) ([]schema.Policy, error) {
	out := slices.Clone(have)
	switch {
	case strings.EqualFold(string(request), string(schema.Add)):
		for _, p := range change {
			if i := slices.IndexFunc(out, func(q schema.Policy) bool { return samePolicy(p, q) }); i >= 0 {
				out[i] = p
				continue
			}
			out = append(out, p)
		}
	case strings.EqualFold(string(request), string(schema.Remove)):
		for _, p := range change {
			out = slices.DeleteFunc(out, func(q schema.Policy) bool { return samePolicy(p, q) })
		}
	case strings.EqualFold(string(request), string(schema.Update)),
		strings.EqualFold(string(request), string(schema.Refresh)):
		out = slices.DeleteFunc(out, func(q schema.Policy) bool {
			return slices.ContainsFunc(change, func(p schema.Policy) bool { return strings.EqualFold(p.Type, q.Type) })
		})
		out = append(out, change...)
	default:
		return nil, hresult.Errorf(hresult.InvalidArgument, "request type %q", request)
	}
	return out, nil
}
