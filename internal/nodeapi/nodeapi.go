// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package nodeapi is a client for the parts of the Kubernetes API that the programs
// of a node need, its own Node above all. It uses plain HTTPS, because client-go
// would make them several times as large and slow to start.
package nodeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Client reads and annotates one Node, reads other objects that the node may see, and deletes pods of the node.
type Client struct {
	url, name string
	transport http.RoundTripper
}

// requestLimit is the time limit of a request. Callers retry anyway.
const requestLimit = 10 * time.Second

// answerLimit is the maximum size of a response, in bytes. A Node object is a few kB.
const answerLimit = 4 << 20

// New returns a client for the Node called name, at the API server with the URL,
// that authenticates as Transport does.
func New(serverURL, name string, ca []byte, keyPair string) (*Client, error) {
	transport, err := Transport(ca, keyPair)
	if err != nil {
		return nil, err
	}
	return &Client{url: serverURL, name: name, transport: transport}, nil
}

// apiError is a response with a status other than 2xx.
type apiError struct {
	Code   int
	Reason string
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Reason, e.Code) }

// open sends a request and returns the body of a successful response.
func (c *Client) open(ctx context.Context, method, path string, content []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	switch {
	case method == http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	case content != nil:
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "mullion-node")
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 == 2 {
		return res.Body, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if err != nil {
		return nil, err
	}
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answer, &status) != nil || status.Message == "" {
		status.Message = http.StatusText(res.StatusCode)
	}
	return nil, &apiError{res.StatusCode, status.Message}
}

// Node is the part of the Node object that its own programs use.
type Node struct {
	UID     string // distinguishes nodes of one name
	Version string // of the cluster when the node was read, for Await
	PodCIDR netip.Prefix
	// IPv6PodCIDR is the IPv6 range, if the cluster has two address families.
	IPv6PodCIDR netip.Prefix
	Ready       bool
}

// PodCIDRs lists the node's ranges of pods, one for each address family.
func (n Node) PodCIDRs() []netip.Prefix {
	if !n.IPv6PodCIDR.IsValid() {
		return []netip.Prefix{n.PodCIDR}
	}
	return []netip.Prefix{n.PodCIDR, n.IPv6PodCIDR}
}

// Get reads the node. A missing Node is returned as one without a pod range.
//
// It reads a list of one, whose version is the cluster's. An API server that has started again cannot watch
// from the version of an object that has not changed since.
func (c *Client) Get(ctx context.Context) (Node, error) {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	if err := c.Read(ctx, "/api/v1/nodes?"+c.only().Encode(), &list); err != nil {
		return Node{}, fmt.Errorf("get node %s: %w", c.name, err)
	}
	n := Node{Version: list.Metadata.ResourceVersion}
	if len(list.Items) == 0 {
		return n, nil
	}
	if err := list.Items[0].decode(&n); err != nil {
		return Node{}, fmt.Errorf("get node %s: %w", c.name, err)
	}
	return n, nil
}

// only is the query that selects the node, which is all that a node may list and watch.
func (c *Client) only() url.Values { return url.Values{"fieldSelector": {"metadata.name=" + c.name}} }

// object is the part of a Node as the API has it.
type object struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR  string   `json:"podCIDR"`
		PodCIDRs []string `json:"podCIDRs"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (o object) decode(n *Node) error {
	n.UID = o.Metadata.UID
	if o.Spec.PodCIDR != "" {
		p, err := netip.ParsePrefix(o.Spec.PodCIDR)
		if err != nil {
			return fmt.Errorf("pod range: %w", err)
		}
		n.PodCIDR = p
	}
	// The API server keeps podCIDR equal to the first of podCIDRs, which has one range for each family.
	if len(o.Spec.PodCIDRs) > 1 {
		p, err := netip.ParsePrefix(o.Spec.PodCIDRs[1])
		if err != nil {
			return fmt.Errorf("second pod range: %w", err)
		}
		n.IPv6PodCIDR = p
	}
	for _, cond := range o.Status.Conditions {
		if cond.Type == "Ready" {
			n.Ready = cond.Status == "True"
		}
	}
	return nil
}

// Await returns nil when the Node has changed since the given version of the cluster. Its creation and deletion
// are changes, too. After an error, the caller waits before a retry: an API server that cannot watch from the
// version responds with an immediate error each time.
func (c *Client) Await(ctx context.Context, version string) error {
	query := c.only()
	query.Set("watch", "true")
	query.Set("resourceVersion", version)
	body, err := c.open(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("watch node %s: %w", c.name, err)
	}
	defer body.Close()
	var event struct {
		Type   string `json:"type"`
		Object struct {
			Message string `json:"message"` // of the Status of an error
		} `json:"object"`
	}
	if err := json.NewDecoder(io.LimitReader(body, answerLimit)).Decode(&event); err != nil {
		return fmt.Errorf("watch node %s: %w", c.name, err)
	}
	if event.Type == "ERROR" {
		return fmt.Errorf("watch node %s: %s", c.name, event.Object.Message)
	}
	return nil
}
