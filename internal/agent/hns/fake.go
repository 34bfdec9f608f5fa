// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Fake is HNS in memory, behind the same call as the real one: names of
// networks may repeat, a network's endpoints go with it, an address is given
// once per network.
type Fake struct {
	// Fail, if set, is asked before each call.
	Fail func(method, path string) error

	mu        sync.Mutex
	networks  []Network  // guarded by mu
	endpoints []Endpoint // guarded by mu
	next      int        // guarded by mu
	log       []string   // guarded by mu
}

// Client returns a client of the fake.
func (f *Fake) Client() Client { return Client{Call: f.call} }

// Dump lists the changes made so far, one per line, and forgets them.
func (f *Fake) Dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := strings.Join(f.log, "\n")
	f.log = nil
	return out
}

func (f *Fake) call(method, path, request string) (string, error) {
	if f.Fail != nil {
		if err := f.Fail(method, path); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	output, err := f.do(method, strings.Split(strings.Trim(path, "/"), "/"), request)
	if err != nil {
		answer, merr := json.Marshal(map[string]any{"Success": false, "Error": err.Error()})
		return string(answer), merr
	}
	answer, err := json.Marshal(map[string]any{"Success": true, "Output": output})
	return string(answer), err
}

// do carries out a call.
// Preconditions: f.mu is held.
func (f *Fake) do(method string, path []string, request string) (any, error) {
	switch route := method + " " + path[0]; {
	case route == "GET networks" && len(path) == 1:
		return slices.Clone(f.networks), nil
	case route == "GET endpoints" && len(path) == 1:
		return slices.Clone(f.endpoints), nil
	case route == "POST networks":
		var n Network
		if err := json.Unmarshal([]byte(request), &n); err != nil {
			return nil, err
		}
		f.next++
		n.ID = fmt.Sprintf("00000000-0000-0000-0000-%012d", f.next)
		f.networks = append(f.networks, n)
		f.log = append(f.log, "create network "+n.Name+" "+n.Subnets[0].AddressPrefix)
		return n, nil
	case route == "POST endpoints" && len(path) == 3 && path[2] == "attach":
		i := slices.IndexFunc(f.endpoints, func(e Endpoint) bool { return e.ID == path[1] })
		if i < 0 {
			return nil, errors.New("element not found")
		}
		f.endpoints[i].State = 2
		f.log = append(f.log, "attach "+f.endpoints[i].Name)
		return nil, nil
	case route == "POST endpoints":
		return f.createEndpoint(request)
	case route == "DELETE networks":
		n := len(f.networks)
		f.networks = slices.DeleteFunc(f.networks, func(n Network) bool { return n.ID == path[1] })
		f.endpoints = slices.DeleteFunc(f.endpoints, func(e Endpoint) bool { return e.VirtualNetwork == path[1] })
		if n == len(f.networks) {
			return nil, errors.New("element not found")
		}
		f.log = append(f.log, "delete network")
		return nil, nil
	case route == "DELETE endpoints":
		n := len(f.endpoints)
		f.endpoints = slices.DeleteFunc(f.endpoints, func(e Endpoint) bool { return e.ID == path[1] })
		if n == len(f.endpoints) {
			return nil, errors.New("element not found")
		}
		f.log = append(f.log, "delete endpoint")
		return nil, nil
	}
	return nil, fmt.Errorf("no such call: %s %s", method, strings.Join(path, "/"))
}

// createEndpoint makes an endpoint.
// Preconditions: f.mu is held.
func (f *Fake) createEndpoint(request string) (any, error) {
	var e Endpoint
	if err := json.Unmarshal([]byte(request), &e); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(f.networks, func(n Network) bool { return n.ID == e.VirtualNetwork })
	if i < 0 {
		return nil, errors.New("element not found")
	}
	if p, err := netip.ParsePrefix(f.networks[i].Subnets[0].AddressPrefix); err != nil || !p.Contains(netip.MustParseAddr(e.IPAddress)) {
		return nil, errors.New("the address is not in the subnet")
	}
	if slices.ContainsFunc(f.endpoints, func(o Endpoint) bool { return o.IPAddress == e.IPAddress && o.VirtualNetwork == e.VirtualNetwork }) {
		return nil, errors.New("the object already exists")
	}
	f.next++
	e.ID, e.State = fmt.Sprintf("00000000-0000-0000-0000-%012d", f.next), 1
	f.endpoints = append(f.endpoints, e)
	f.log = append(f.log, "create endpoint "+e.Name+" "+e.IPAddress)
	return e, nil
}
