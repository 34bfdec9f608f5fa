// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// HNS is the part of the Host Networking Service that the agent needs. Call is
// vmcompute.dll!HNSCall, with method and path as in HTTP, and JSON in both
// directions. hns.API implements it.
//
// flannel uses the same call on Windows (github.com/Microsoft/hnslib v0.1.2,
// internal/hns, and github.com/flannel-io/flannel
// pkg/backend/hostgw/hostgw_windows.go), because it is one function that every
// Windows Server since 2016 has; the newer computenetwork.dll shows the same
// objects. ACLs are written through the newer one, which can add and remove single
// policies.
type HNS interface {
	Call(ctx context.Context, method, path, request string) (response string, err error)
	Query(ctx context.Context, kind hns.Kind, id schema.GUID, query string) (properties string, err error)
	Modify(ctx context.Context, kind hns.Kind, id schema.GUID, settings string) error
}

// hnsClient makes the calls of HNS that the agent needs.
type hnsClient struct{ hns HNS }

// do makes one call. in and out may be nil.
func (c hnsClient) do(ctx context.Context, method, path string, in, out any) error {
	if err := c.call(ctx, method, path, in, out); err != nil {
		return fmt.Errorf("HNS %s %s: %w", method, path, err)
	}
	return nil
}

func (c hnsClient) call(ctx context.Context, method, path string, in, out any) error {
	request := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		request = string(b)
	}
	response, err := c.hns.Call(ctx, method, path, request)
	if errors.Is(err, hresult.NotImplemented) {
		return fmt.Errorf("%w (is the Containers feature installed?)", err)
	}
	if err != nil {
		return err
	}
	output, err := schema.ParseResponse(response)
	if err != nil || out == nil || len(output) == 0 {
		return err
	}
	if err := json.Unmarshal(output, out); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func (c hnsClient) networks(ctx context.Context) ([]schema.V1Network, error) {
	var list []schema.V1Network
	return list, c.do(ctx, "GET", "/networks/", nil, &list)
}

func (c hnsClient) createNetwork(ctx context.Context, n schema.V1Network) (schema.V1Network, error) {
	var made schema.V1Network
	return made, c.do(ctx, "POST", "/networks/", n, &made)
}

// deleteNetwork removes a network and its endpoints.
func (c hnsClient) deleteNetwork(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "/networks/"+id, nil, nil)
}

// endpoints lists the endpoints of all networks.
func (c hnsClient) endpoints(ctx context.Context) ([]schema.V1Endpoint, error) {
	var list []schema.V1Endpoint
	return list, c.do(ctx, "GET", "/endpoints/", nil, &list)
}

func (c hnsClient) createEndpoint(ctx context.Context, e schema.V1Endpoint) (schema.V1Endpoint, error) {
	var made schema.V1Endpoint
	return made, c.do(ctx, "POST", "/endpoints/", e, &made)
}

func (c hnsClient) deleteEndpoint(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "/endpoints/"+id, nil, nil)
}

// attachToHost attaches an endpoint to the node itself, which gets its address.
func (c hnsClient) attachToHost(ctx context.Context, id string) error {
	// Compartment 1 is the network compartment of the host.
	request := schema.V1AttachRequest{SystemType: schema.SystemHost, CompartmentID: 1}
	return c.do(ctx, "POST", "/endpoints/"+id+"/attach", request, nil)
}

// policies returns the policies of an endpoint.
func (c hnsClient) policies(ctx context.Context, id string) ([]schema.Policy, error) {
	guid, err := schema.ParseGUID(id)
	if err != nil {
		return nil, err
	}
	text, err := c.hns.Query(ctx, hns.Endpoint, guid, "")
	if err != nil {
		return nil, fmt.Errorf("query endpoint %s: %w", id, err)
	}
	var e schema.Endpoint
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return nil, fmt.Errorf("query endpoint %s: %w", id, err)
	}
	return e.Policies, nil
}

// modifyPolicies adds policies to an endpoint, or removes them, and leaves its others
// alone.
func (c hnsClient) modifyPolicies(ctx context.Context, id string, how schema.RequestType, list []schema.Policy) error {
	guid, err := schema.ParseGUID(id)
	if err != nil {
		return err
	}
	settings, err := json.Marshal(schema.PolicyRequest{Policies: list})
	if err != nil {
		return err
	}
	request, err := json.Marshal(schema.ModifyRequest{ResourceType: schema.ResourcePolicy, RequestType: how,
		Settings: settings})
	if err != nil {
		return err
	}
	if err := c.hns.Modify(ctx, hns.Endpoint, guid, string(request)); err != nil {
		return fmt.Errorf("%s policies of endpoint %s: %w", strings.ToLower(string(how)), id, err)
	}
	return nil
}
