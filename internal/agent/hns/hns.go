// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hns is what the node agent needs of the Host Networking Service: the
// pods' network and the node's own endpoint in it.
//
// It speaks the JSON interface of vmcompute.dll!HNSCall, as flannel does on
// Windows (github.com/Microsoft/hnslib v0.1.2, internal/hns, and
// github.com/flannel-io/flannel pkg/backend/hostgw/hostgw_windows.go), because
// that is one function that every Windows Server since 2016 has; the newer
// computenetwork.dll shows the same objects.
package hns

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Call is vmcompute.dll!HNSCall: method and path as in HTTP, JSON both ways.
type Call func(method, path, request string) (response string, err error)

// Client is HNS through a Call.
type Client struct {
	Call Call
}

// L2Bridge is the network type whose endpoints share the node's network: the
// cluster's pod ranges are routed to the nodes.
const L2Bridge = "L2Bridge"

// Network is an HNS network.
type Network struct {
	ID                 string   `json:"ID,omitempty"`
	Name               string   `json:"Name"`
	Type               string   `json:"Type"`
	NetworkAdapterName string   `json:"NetworkAdapterName,omitempty"`
	Subnets            []Subnet `json:"Subnets"`
	DNSServerList      string   `json:"DNSServerList,omitempty"`
	// ManagementIP is empty until HNS has moved the adapter's address to the
	// virtual switch.
	ManagementIP string `json:"ManagementIP,omitempty"`
}

// Subnet of a network.
type Subnet struct {
	AddressPrefix  string `json:"AddressPrefix"`
	GatewayAddress string `json:"GatewayAddress"`
}

// Endpoint is an HNS endpoint.
type Endpoint struct {
	ID             string `json:"ID,omitempty"`
	Name           string `json:"Name"`
	VirtualNetwork string `json:"VirtualNetwork"` // the network's ID
	IPAddress      string `json:"IPAddress,omitempty"`
	// State 2 is attached, 3 attached and shared.
	State uint16 `json:"State,omitempty"`
}

// Attached says whether the endpoint is connected to something.
func (e Endpoint) Attached() bool { return e.State == 2 || e.State == 3 }

// envelope is what HNS wraps every answer in.
type envelope struct {
	Success bool
	Error   string
	Output  json.RawMessage
}

// do makes one call. out may be nil.
func (c Client) do(method, path string, in, out any) error {
	request := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		request = string(b)
	}
	response, err := c.Call(method, path, request)
	if err != nil {
		return fmt.Errorf("HNS %s %s: %w", method, path, err)
	}
	var e envelope
	if err := json.Unmarshal([]byte(response), &e); err != nil {
		return fmt.Errorf("HNS %s %s: answer %.100q: %w", method, path, response, err)
	}
	if !e.Success {
		return fmt.Errorf("HNS %s %s: %w", method, path, errors.New(e.Error))
	}
	if out == nil || len(e.Output) == 0 {
		return nil
	}
	if err := json.Unmarshal(e.Output, out); err != nil {
		return fmt.Errorf("HNS %s %s: output: %w", method, path, err)
	}
	return nil
}

// Networks lists the networks.
func (c Client) Networks() ([]Network, error) {
	var list []Network
	return list, c.do("GET", "/networks/", nil, &list)
}

// CreateNetwork makes a network.
func (c Client) CreateNetwork(n Network) (Network, error) {
	var made Network
	return made, c.do("POST", "/networks/", n, &made)
}

// DeleteNetwork removes a network and its endpoints.
func (c Client) DeleteNetwork(id string) error { return c.do("DELETE", "/networks/"+id, nil, nil) }

// Endpoints lists the endpoints of all networks.
func (c Client) Endpoints() ([]Endpoint, error) {
	var list []Endpoint
	return list, c.do("GET", "/endpoints/", nil, &list)
}

// CreateEndpoint makes an endpoint.
func (c Client) CreateEndpoint(e Endpoint) (Endpoint, error) {
	var made Endpoint
	return made, c.do("POST", "/endpoints/", e, &made)
}

// DeleteEndpoint removes an endpoint.
func (c Client) DeleteEndpoint(id string) error { return c.do("DELETE", "/endpoints/"+id, nil, nil) }

// AttachToHost connects an endpoint to the node itself: its address becomes
// one of the node's.
func (c Client) AttachToHost(id string) error {
	// Compartment 1 is the network compartment of the host.
	body := struct {
		SystemType    string
		CompartmentID uint16 `json:"CompartmentId"`
	}{"Host", 1}
	return c.do("POST", "/endpoints/"+id+"/attach", body, nil)
}
