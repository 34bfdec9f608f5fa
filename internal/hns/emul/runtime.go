// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"context"
	"slices"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// The methods of this file are for the container runtime of the same process.
// On Windows containerd does the same through computenetwork.dll
// (pkg/netns/netns_windows.go), and the runhcs shim adds the containers.

// CreateNamespace creates a namespace of the type Host and returns its GUID, the
// value of CNI_NETNS for CNI plugins on Windows.
func (s *Service) CreateNamespace(ctx context.Context) (id string, err error) {
	made, err := s.Create(ctx, hns.Namespace, schema.GUID{}, schema.GUID{}, `{"SchemaVersion":{"Major":2,"Minor":0}}`)
	if err != nil {
		return "", err
	}
	return made.String(), nil
}

// DeleteNamespace detaches the namespace's endpoints and removes it. It is not an
// error if it does not exist.
func (s *Service) DeleteNamespace(ctx context.Context, id string) error {
	guid, err := schema.ParseGUID(id)
	if err != nil {
		return hresult.Errorf(hresult.InvalidArgument, "delete namespace: %w", err)
	}
	if err := s.Delete(ctx, hns.Namespace, guid); hresult.Of(err) != hresult.NotFound {
		return err
	}
	return nil
}

// NamespacePath returns the file by which setns(2) and runc enter the namespace.
func (s *Service) NamespacePath(id string) string {
	if canonical := schema.CanonicalGUID(id); canonical != "" {
		id = canonical
	}
	return s.cfg.DataPlane.NamespacePath(id)
}

// Namespaces lists the namespaces that CreateNamespace made, here or through
// the API, oldest first. A runtime uses it after a crash to find namespaces without
// a sandbox.
func (s *Service) Namespaces() []string {
	out := []string{}
	for ns := range s.current.Load().namespaces.all {
		if compartment(ns) {
			out = append(out, ns.ID)
		}
	}
	return out
}

// AddContainer notes that a container (or a sandbox) is in a namespace. The
// kubelet finds the network counters of a pod by its sandbox's id.
func (s *Service) AddContainer(ctx context.Context, namespaceID, containerID string) error {
	return s.modifyContainer(ctx, namespaceID, containerID, true)
}

// RemoveContainer removes the container from the namespace's record. It is not
// an error if it is not there.
func (s *Service) RemoveContainer(ctx context.Context, namespaceID, containerID string) error {
	if err := s.modifyContainer(ctx, namespaceID, containerID, false); hresult.Of(err) != hresult.NotFound {
		return err
	}
	return nil
}

func (s *Service) modifyContainer(ctx context.Context, namespaceID, containerID string, add bool) error {
	return s.mutate(ctx, func(tx *txn) error {
		id := schema.CanonicalGUID(namespaceID)
		if tx.namespaces.get(id) == nil {
			return notFound(hns.Namespace, namespaceID)
		}
		setContainer(tx, id, containerID, add)
		return nil
	})
}

// NamespaceStats returns the counters of the endpoints of a namespace, in the order
// in which they were attached.
func (s *Service) NamespaceStats(ctx context.Context, id string) ([]hns.EndpointStats, error) {
	st := s.current.Load()
	ns := st.namespaces.get(schema.CanonicalGUID(id))
	if ns == nil {
		return nil, notFound(hns.Namespace, id)
	}
	out := []hns.EndpointStats{}
	for _, endpointID := range slices.Clone(ns.Endpoints) {
		stats, err := s.cfg.DataPlane.Stats(ctx, endpointID)
		if err != nil {
			return nil, hresult.Errorf(hresult.Fail, "read counters of endpoint %s: %w", endpointID, err)
		}
		e := hns.EndpointStats{V1EndpointStats: statsToV1(endpointID, stats)}
		if ep := st.endpoints.get(endpointID); ep != nil {
			e.Name = ep.Name
		}
		out = append(out, e)
	}
	return out, nil
}
