// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
)

// straysPage is the number of pods in an answer. A pod is a few kB, at most the 1.5 MB of an object in etcd.
const straysPage = 100

// DeleteStrays deletes the pods of the node that have an address in none of the node's ranges. It returns their
// namespaces and names, also beside an error.
//
// A node that is deleted and joins again has other ranges, and nothing leads to addresses of the former ones. The
// cluster deletes the pods of a node that stays away for 40 s (quarantineTime in Kubernetes v1.36.3
// pkg/controller/podgc/gc_controller.go). If it is back earlier, the kubelet lets them run, and no client reaches them.
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
			if err := c.deletePod(ctx, p); err != nil && !IsNotFound(err) {
				return deleted, fmt.Errorf("delete pod %s, whose address is of no range of %s: %w", name, c.name, err)
			}
			deleted = append(deleted, name)
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

// deletePod deletes this pod, not another one of its name.
func (c *Client) deletePod(ctx context.Context, p pod) error {
	path := "/api/v1/namespaces/" + url.PathEscape(p.Metadata.Namespace) + "/pods/" + url.PathEscape(p.Metadata.Name)
	options := map[string]any{"preconditions": map[string]string{"uid": p.Metadata.UID}}
	return c.send(ctx, http.MethodDelete, path, options)
}
