// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// ReasonFrozen is the reason of the event that a program of the node was restarted because it did not
// respond.
const ReasonFrozen = "ProgramFrozen"

// Warn records an event of the type Warning about the node. Its place is the one of the kubelet's own events about the
// node, the namespace default, and the node's UID in it is its name (kubernetes v1.36.3 cmd/kubelet/app/server.go,
// nodeRef).
func (c *Client) Warn(ctx context.Context, at time.Time, reason, message string) error {
	err := c.warn(ctx, involved{Kind: "Node", Name: c.name, UID: c.name}, at, reason, message)
	if err != nil {
		return fmt.Errorf("record event of node %s: %w", c.name, err)
	}
	return nil
}

// involved names the object of an event.
type involved struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// warn records a warning about an object, in the object's namespace.
func (c *Client) warn(ctx context.Context, about involved, at time.Time, reason, message string) error {
	namespace := cmp.Or(about.Namespace, "default")
	about.APIVersion = "v1"
	stamp := at.UTC().Format(time.RFC3339)
	return c.send(ctx, http.MethodPost, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/events", map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]string{"generateName": about.Name + ".", "namespace": namespace},
		"involvedObject": about,
		"reason":         reason, "message": message, "type": "Warning",
		"source":         map[string]string{"component": "mullion", "host": c.name},
		"firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
	})
}
