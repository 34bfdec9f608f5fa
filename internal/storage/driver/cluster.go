// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package driver

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mullion-k8s/mullion/internal/agent/nodeapi"
	"github.com/mullion-k8s/mullion/internal/storage"
)

// API is a Cluster that asks the API server with the node's identity.
type API struct {
	Client *nodeapi.Client
}

// Wants reports whether the cluster uses the driver: it has its CSIDriver object.
func (a API) Wants(ctx context.Context) (bool, error) {
	return a.has(ctx, "/apis/storage.k8s.io/v1/csidrivers/"+storage.Driver)
}

// HasVolume reports whether a PersistentVolume of the name exists.
func (a API) HasVolume(ctx context.Context, name string) (bool, error) {
	return a.has(ctx, "/api/v1/persistentvolumes/"+name)
}

func (a API) has(ctx context.Context, path string) (bool, error) {
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
