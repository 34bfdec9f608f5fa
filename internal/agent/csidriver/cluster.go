// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
)

// API is a Cluster that queries the API server with the node's identity.
type API struct {
	Client *nodeapi.Client
}

// Wants reports whether the cluster uses the driver: it has its CSIDriver object.
func (a API) Wants(ctx context.Context) (bool, error) {
	const path = "/apis/storage.k8s.io/v1/csidrivers/" + storage.Driver
	var o struct{}
	err := a.Client.Read(ctx, path, &o)
	if nodeapi.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s: %w", path, err)
	}
	return true, nil
}

// Deleted reads annotations of the node, which the manager writes. It skips annotations
// without a time.
func (a API) Deleted(ctx context.Context) (map[string]time.Time, error) {
	all, err := a.Client.Annotations(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]time.Time{}
	for key, value := range all {
		at, err := time.Parse(time.RFC3339, value)
		if err == nil && strings.HasPrefix(key, storage.DeletedPrefix) {
			out[key] = at
		}
	}
	return out, nil
}

// Forget removes an annotation of the node.
func (a API) Forget(ctx context.Context, key string) error { return a.Client.Annotate(ctx, key, "") }

// UID returns the UID of the namespace kube-system, which every cluster has once.
func (a API) UID(ctx context.Context) (string, error) {
	const path = "/api/v1/namespaces/kube-system"
	var o struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if err := a.Client.Read(ctx, path, &o); err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	return o.Metadata.UID, nil
}

// ReportFree writes an annotation of the node; the manager makes a CSIStorageCapacity
// of it.
func (a API) ReportFree(ctx context.Context, bytes int64) error {
	return a.Client.Annotate(ctx, storage.FreeAnnotation, strconv.FormatInt(bytes, 10))
}
