// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// The objects of the store. A stored object is never changed: a mutation stores
// a changed copy, so that readers need no lock.
type (
	network  struct{ schema.Network }
	endpoint struct {
		schema.Endpoint
		// HostAttached: v1 attach with system type Host.
		HostAttached bool `json:",omitempty"`
		// WasAttached makes the v1 state "detached" instead of "created".
		WasAttached bool `json:",omitempty"`
		// Containers of a v1 attach with system type Container.
		Containers []string `json:",omitempty"`
		// compiled caches compile's result for a plain remote endpoint. As in
		// balancer, only compile and set access it, with Service.mu held.
		compiled *intent.Endpoint
	}
	namespace struct {
		schema.Namespace // Resources is empty; it is made from the next two
		Endpoints        []string
		Containers       []string
		// BuiltIn marks the host's own compartment, which always exists.
		BuiltIn bool `json:",omitempty"`
	}
	balancer struct {
		schema.LoadBalancer
		// compiled caches compile's result. It depends on constant data only: the
		// addresses of an endpoint never change, and deleting an endpoint removes
		// it from the load balancer, which creates a new balancer.
		compiled []intent.LoadBalancer
	}
	sdnRoute struct{ schema.SDNRoute }
	// global is a value that exists once, such as the boot that the state is of.
	global struct{ Values []string }
)

// Names of the globals.
const (
	globalBoot     = "boot"     // one value: Config.BootID
	globalAccelnet = "accelnet" // MAC addresses set through /accelnet/
)

func (e *endpoint) remote() bool { return e.Flags&schema.RemoteEndpoint != 0 }

// table holds the objects of one kind in the order in which they were made.
type table[T any] struct {
	byID  map[string]*T
	order []string
}

func (t *table[T]) get(id string) *T { return t.byID[id] }

// all is an iter.Seq of the objects, in order. The loop may change the table.
func (t *table[T]) all(yield func(*T) bool) {
	for _, id := range t.order {
		// It may have been removed from the table.
		if v := t.byID[id]; v != nil && !yield(v) {
			return
		}
	}
}

func (t *table[T]) clone() table[T] {
	c := table[T]{byID: maps.Clone(t.byID), order: slices.Clone(t.order)}
	if c.byID == nil {
		c.byID = map[string]*T{}
	}
	return c
}

func (t *table[T]) set(id string, v *T) {
	if _, ok := t.byID[id]; !ok {
		t.order = append(t.order, id)
	}
	t.byID[id] = v
}

func (t *table[T]) remove(id string) {
	if _, ok := t.byID[id]; ok {
		delete(t.byID, id)
		// A new slice: someone may be walking the old one, see all.
		t.order = slices.DeleteFunc(slices.Clone(t.order), func(x string) bool { return x == id })
	}
}

// state is the whole state of the service. Published states are immutable.
type state struct {
	networks   table[network]
	endpoints  table[endpoint]
	namespaces table[namespace]
	balancers  table[balancer]
	routes     table[sdnRoute]
	globals    table[global]
}

// change is one object set, or removed (Value nil). It is the unit of the
// journal.
type change struct {
	Table string          `json:"t"`
	ID    string          `json:"id"`
	Value json.RawMessage `json:"v,omitempty"`
}

// txn is a state under change. The tables of the base state are copied when
// they are first written to.
type txn struct {
	state
	cloned  map[string]bool
	changes []pending
	// plane is set if the data plane must get the change.
	plane bool
	// networksChanged is set if the list of networks has changed.
	networksChanged bool
}

// pending is a change whose value is not encoded yet.
type pending struct {
	table, id string
	value     any
}

func newTxn(base *state) *txn { return &txn{state: *base, cloned: map[string]bool{}} }

func set[T any](tx *txn, name string, t *table[T], id string, v *T) {
	if !tx.cloned[name] {
		*t, tx.cloned[name] = t.clone(), true
	}
	if v == nil {
		t.remove(id)
		tx.changes = append(tx.changes, pending{table: name, id: id})
		return
	}
	t.set(id, v)
	tx.changes = append(tx.changes, pending{table: name, id: id, value: v})
}

func (tx *txn) setNetwork(id string, v *network) {
	tx.plane, tx.networksChanged = true, true
	set(tx, "network", &tx.networks, id, v)
}
func (tx *txn) setEndpoint(id string, v *endpoint) {
	if v != nil {
		v.compiled = nil // v may be a copy
	}
	set(tx, "endpoint", &tx.endpoints, id, v)
}
func (tx *txn) setNamespace(id string, v *namespace) { set(tx, "namespace", &tx.namespaces, id, v) }
func (tx *txn) setBalancer(id string, v *balancer) {
	tx.plane = true
	if v != nil {
		v.compiled = nil // v may be a copy
	}
	set(tx, "loadbalancer", &tx.balancers, id, v)
}
func (tx *txn) setRoute(id string, v *sdnRoute) {
	tx.plane = true
	set(tx, "route", &tx.routes, id, v)
}
func (tx *txn) setGlobal(id string, v *global) { set(tx, "global", &tx.globals, id, v) }

// encode returns the journal's form of the changes.
func (tx *txn) encode() ([]change, error) {
	out := make([]change, 0, len(tx.changes))
	for _, p := range tx.changes {
		c := change{Table: p.table, ID: p.id}
		if p.value != nil {
			b, err := json.Marshal(p.value)
			if err != nil {
				return nil, fmt.Errorf("encode %s %s: %w", p.table, p.id, err)
			}
			c.Value = b
		}
		out = append(out, c)
	}
	return out, nil
}

// replay does a change read from the disk.
func (tx *txn) replay(c change) error {
	var err error
	switch c.Table {
	case "network":
		err = replay(c, tx.setNetwork)
	case "endpoint":
		err = replay(c, tx.setEndpoint)
	case "namespace":
		err = replay(c, tx.setNamespace)
	case "loadbalancer":
		err = replay(c, tx.setBalancer)
	case "route":
		err = replay(c, tx.setRoute)
	case "global":
		err = replay(c, tx.setGlobal)
	default:
		err = fmt.Errorf("unknown table")
	}
	if err != nil {
		return fmt.Errorf("replay %s %s: %w", c.Table, c.ID, err)
	}
	return nil
}

func replay[T any](c change, set func(string, *T)) error {
	if c.Value == nil {
		set(c.ID, nil)
		return nil
	}
	v := new(T)
	if err := json.Unmarshal(c.Value, v); err != nil {
		return err
	}
	set(c.ID, v)
	return nil
}

// dump returns the whole state as changes against an empty one.
func (s *state) dump() ([]change, error) {
	empty := &txn{cloned: map[string]bool{}}
	s.networks.all(func(v *network) bool { empty.setNetwork(v.ID, v); return true })
	s.endpoints.all(func(v *endpoint) bool { empty.setEndpoint(v.ID, v); return true })
	s.namespaces.all(func(v *namespace) bool { empty.setNamespace(v.ID, v); return true })
	s.balancers.all(func(v *balancer) bool { empty.setBalancer(v.ID, v); return true })
	s.routes.all(func(v *sdnRoute) bool { empty.setRoute(v.ID, v); return true })
	for _, id := range s.globals.order {
		empty.setGlobal(id, s.globals.get(id))
	}
	return empty.encode()
}

// exists reports whether there is an object of the kind with the ID.
func (s *state) exists(kind hns.Kind, id string) bool {
	switch kind {
	case hns.Network:
		return s.networks.get(id) != nil
	case hns.Endpoint:
		return s.endpoints.get(id) != nil
	case hns.Namespace:
		return s.namespaces.get(id) != nil
	case hns.LoadBalancer:
		return s.balancers.get(id) != nil
	case hns.SDNRoute:
		return s.routes.get(id) != nil
	}
	return false
}
