// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

var _ hns.API = (*Service)(nil)

// log writes the one line that each call leaves.
func (s *Service) log(ctx context.Context, method, path string, began time.Time, err error) {
	level := slog.LevelDebug
	if err == nil && !s.cfg.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String(logkey.Method, method), slog.String(logkey.Path, path),
		slog.Duration(logkey.Duration, time.Since(began)),
	}
	if err != nil {
		level = slog.LevelInfo
		attrs = append(attrs, slog.String(logkey.Code, fmt.Sprintf("0x%08x", uint32(hresult.Of(err)))),
			slog.Any(logkey.Error, err))
	}
	s.cfg.Log.LogAttrs(ctx, level, "hns call", attrs...)
}

// objectPath names an object in the log as the v1 API does.
func objectPath(kind hns.Kind, id schema.GUID) string {
	collection := "/" + strings.ReplaceAll(kind.String(), " ", "") + "s/"
	if id.IsZero() {
		return collection
	}
	return collection + id.String()
}

// Enumerate implements hns.API.
func (s *Service) Enumerate(ctx context.Context, kind hns.Kind, query string) (ids string, err error) {
	defer func(began time.Time) { s.log(ctx, "enumerate", objectPath(kind, schema.GUID{}), began, err) }(time.Now())
	match, err := parseFilter(query)
	if err != nil {
		return "", err
	}
	found := []string{} // an empty list is "[]", not null (rule G3)
	st := s.current.Load()
	keep := func(id string, property func(string) []string) bool {
		if match(property) {
			found = append(found, id)
		}
		return true
	}
	switch kind {
	case hns.Network:
		st.networks.all(func(n *network) bool { return keep(n.ID, n.property) })
	case hns.Endpoint:
		st.endpoints.all(func(e *endpoint) bool { return keep(e.ID, e.property) })
	case hns.Namespace:
		st.namespaces.all(func(ns *namespace) bool { return keep(ns.ID, ns.property) })
	case hns.LoadBalancer:
		st.balancers.all(func(lb *balancer) bool { return keep(lb.ID, only("id", lb.ID)) })
	case hns.SDNRoute:
		st.routes.all(func(r *sdnRoute) bool { return keep(r.ID, only("id", r.ID)) })
	default:
		return "", hresult.Errorf(hresult.NotImplemented, "enumerate %s", kind)
	}
	return encode(found)
}

// Properties that a filter may name, in lower case. Queries for the endpoints of a
// network use the v1 name, VirtualNetwork.
func (n *network) property(key string) []string {
	switch key {
	case "id":
		return []string{n.ID}
	case "name":
		return []string{n.Name}
	case "type":
		return []string{string(n.Type)}
	}
	return nil
}

func (e *endpoint) property(key string) []string {
	switch key {
	case "id":
		return []string{e.ID}
	case "name":
		return []string{e.Name}
	case "virtualnetwork", "hostcomputenetwork":
		return []string{e.HostComputeNetwork}
	case "hostcomputenamespace":
		return []string{e.HostComputeNamespace}
	case "macaddress":
		return []string{e.MacAddress}
	case "ipaddress":
		var out []string
		for _, c := range e.IPConfigurations {
			out = append(out, c.IPAddress)
		}
		return out
	}
	return nil
}

func (ns *namespace) property(key string) []string {
	switch key {
	case "id":
		return []string{ns.ID}
	case "type":
		return []string{string(ns.Type)}
	case "namespaceid":
		return []string{fmt.Sprint(ns.NamespaceID)}
	}
	return nil
}

func only(name, value string) func(string) []string {
	return func(key string) []string {
		if key == name {
			return []string{value}
		}
		return nil
	}
}

// parseFilter turns a query into a predicate. All named properties must be
// equal; GUIDs are compared as GUIDs; the empty string never matches, and neither
// does a property that the kind does not have (rules G5 and G6).
func parseFilter(query string) (func(property func(string) []string) bool, error) {
	var q schema.Query
	if strings.TrimSpace(query) != "" {
		if err := decode(query, &q); err != nil {
			return nil, err
		}
	}
	want := map[string]any{}
	if q.Filter != "" {
		if err := decode(q.Filter, &want); err != nil {
			return nil, err
		}
	}
	return func(property func(string) []string) bool {
		for key, value := range want {
			text := fmt.Sprint(value)
			equal := false
			for _, have := range property(strings.ToLower(key)) {
				guid := schema.CanonicalGUID(text)
				equal = equal || have == text || guid != "" && have == guid
			}
			if text == "" || !equal {
				return false
			}
		}
		return true
	}, nil
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", hresult.Errorf(hresult.Unexpected, "encode answer: %w", err)
	}
	return string(b), nil
}

// Create implements hns.API.
func (s *Service) Create(ctx context.Context, kind hns.Kind, networkID, id schema.GUID,
	settings string) (made schema.GUID, err error) {
	defer func(began time.Time) { s.log(ctx, "create", objectPath(kind, made), began, err) }(time.Now())
	made = id
	if kind == hns.Namespace {
		return s.createNamespace(ctx, id, settings)
	}
	err = s.mutate(ctx, func(tx *txn) error {
		var err error
		switch kind {
		case hns.Network:
			made, err = s.createNetwork(tx, id, settings)
		case hns.Endpoint:
			made, err = s.createEndpoint(tx, networkID, id, settings)
		case hns.LoadBalancer:
			made, err = s.createLoadBalancer(tx, id, settings)
		case hns.SDNRoute:
			made, err = s.createRoute(tx, id, settings)
		default:
			err = hresult.Errorf(hresult.NotImplemented, "create %s", kind)
		}
		return err
	})
	return made, err
}

// Open implements hns.API.
func (s *Service) Open(ctx context.Context, kind hns.Kind, id schema.GUID) (err error) {
	defer func(began time.Time) { s.log(ctx, "open", objectPath(kind, id), began, err) }(time.Now())
	if !s.current.Load().exists(kind, id.String()) {
		return notFound(kind, id.String())
	}
	return nil
}

// Query implements hns.API. The query is not even read: hnslib passes an empty one,
// or Enumerate's with its filter.
func (s *Service) Query(ctx context.Context, kind hns.Kind, id schema.GUID, _ string) (properties string, err error) {
	defer func(began time.Time) { s.log(ctx, "query", objectPath(kind, id), began, err) }(time.Now())
	st, key := s.current.Load(), id.String()
	if !st.exists(kind, key) {
		return "", notFound(kind, key)
	}
	switch kind {
	case hns.Network:
		return encode(st.networks.get(key).Network)
	case hns.Endpoint:
		return encode(st.endpoints.get(key).Endpoint)
	case hns.Namespace:
		ns := st.namespaces.get(key)
		doc := ns.Namespace
		doc.Resources = ns.resources()
		return encode(doc)
	case hns.LoadBalancer:
		return encode(st.balancers.get(key).LoadBalancer)
	default:
		return encode(st.routes.get(key).SDNRoute)
	}
}

// Modify implements hns.API.
func (s *Service) Modify(ctx context.Context, kind hns.Kind, id schema.GUID, settings string) (err error) {
	defer func(began time.Time) { s.log(ctx, "modify", objectPath(kind, id), began, err) }(time.Now())
	return s.mutate(ctx, func(tx *txn) error {
		switch kind {
		case hns.Network:
			return s.modifyNetwork(tx, id.String(), settings)
		case hns.Endpoint:
			return s.modifyEndpoint(tx, id.String(), settings)
		case hns.Namespace:
			return s.modifyNamespace(tx, id.String(), settings)
		case hns.LoadBalancer:
			return s.modifyLoadBalancer(tx, id.String(), settings)
		}
		// hnslib deletes routes and creates them again; no known client modifies one.
		return hresult.Errorf(hresult.NotImplemented, "modify %s", kind)
	})
}

// Delete implements hns.API.
func (s *Service) Delete(ctx context.Context, kind hns.Kind, id schema.GUID) (err error) {
	defer func(began time.Time) { s.log(ctx, "delete", objectPath(kind, id), began, err) }(time.Now())
	if kind == hns.Namespace {
		return s.deleteNamespace(ctx, id.String())
	}
	return s.mutate(ctx, func(tx *txn) error {
		key := id.String()
		// Deleting an endpoint that is gone succeeds: win-bridge looks it up first,
		// and takes any error of the deletion as fatal to the pod's removal.
		// Fidelity: differs - HNS answers 0x803B0002 (docs/fidelity/hns.md).
		if kind == hns.Endpoint && tx.endpoints.get(key) == nil {
			return nil
		}
		if !tx.exists(kind, key) {
			return notFound(kind, key)
		}
		switch kind {
		case hns.Network:
			dropNetwork(tx, key)
		case hns.Endpoint:
			dropEndpoint(tx, tx.endpoints.get(key))
		case hns.LoadBalancer:
			tx.setBalancer(key, nil)
		case hns.SDNRoute:
			tx.setRoute(key, nil)
		}
		return nil
	})
}
