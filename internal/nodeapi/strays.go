// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// straysPage is the number of pods in a response. A pod is a few kB, at most the 1.5 MB of an object in
// etcd.
const straysPage = 100

// DeleteStrays deletes the pods of the node that have no address in the node's ranges. It returns their
// namespaces and names, even with an error.
//
// A node that is deleted and joins again has other ranges, and there is no route to addresses in the former ones. The
// cluster deletes the pods of a node that stays away for 40 s (quarantineTime in Kubernetes v1.36.3
// pkg/controller/podgc/gc_controller.go). If it is back earlier, the kubelet lets them run, and no client reaches
// them.
func (c *Client) DeleteStrays(ctx context.Context, ranges []netip.Prefix) (deleted []string, err error) {
	next := ""
	for {
		query := url.Values{
			"fieldSelector": {"spec.nodeName=" + c.name}, "limit": {fmt.Sprint(straysPage)}, "continue": {next},
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []pod `json:"items"`
		}
		if err := c.Read(ctx, "/api/v1/pods?"+query.Encode(), &page); err != nil {
			return deleted, fmt.Errorf("list the pods of %s: %w", c.name, err)
		}
		for _, p := range page.Items {
			if !p.strays(ranges) {
				continue
			}
			name := p.Metadata.Namespace + "/" + p.Metadata.Name
			// The event comes first, so that it exists even if the node ends now. The pod is deleted even
			// without it.
			recorded := c.recordStray(ctx, p)
			if err := c.deletePod(ctx, p); err != nil && !IsNotFound(err) {
				err = errors.Join(err, recorded)
				return deleted, fmt.Errorf("delete pod %s, whose address is of no range of %s: %w", name, c.name, err)
			}
			if deleted = append(deleted, name); recorded != nil {
				return deleted, fmt.Errorf("record the deletion of pod %s: %w", name, recorded)
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return deleted, nil
		}
	}
}

// pod is the part of a Pod that DeleteStrays uses.
type pod struct {
	Metadata struct {
		Namespace         string            `json:"namespace"`
		Name              string            `json:"name"`
		UID               string            `json:"uid"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		HostNetwork bool `json:"hostNetwork"`
	} `json:"spec"`
	Status struct {
		Phase  string `json:"phase"`
		PodIPs []struct {
			IP netip.Addr `json:"ip"`
		} `json:"podIPs"`
	} `json:"status"`
}

// strays reports whether the pod has an address outside of the ranges. The deletion of a static pod deletes its image
// in the API only.
func (p pod) strays(ranges []netip.Prefix) bool {
	_, static := p.Metadata.Annotations["kubernetes.io/config.mirror"]
	ended := p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" || p.Metadata.DeletionTimestamp != ""
	if static || ended || p.Spec.HostNetwork {
		return false
	}
	for _, a := range p.Status.PodIPs {
		if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a.IP) }) {
			return true
		}
	}
	return false
}

// recordStray records an event of a pod that is to be deleted.
func (c *Client) recordStray(ctx context.Context, p pod) error {
	about := involved{Kind: "Pod", Namespace: p.Metadata.Namespace, Name: p.Metadata.Name, UID: p.Metadata.UID}
	return c.warn(ctx, about, time.Now(), "AddressOfFormerRange", "node "+c.name+" has joined the cluster again with "+
		"another range of addresses, and nothing leads to the address of this pod; the node deletes the pod")
}

// deletePod deletes this pod, not another one of its name.
func (c *Client) deletePod(ctx context.Context, p pod) error {
	path := "/api/v1/namespaces/" + url.PathEscape(p.Metadata.Namespace) + "/pods/" + url.PathEscape(p.Metadata.Name)
	options := map[string]any{"preconditions": map[string]string{"uid": p.Metadata.UID}}
	return c.send(ctx, http.MethodDelete, path, options)
}
