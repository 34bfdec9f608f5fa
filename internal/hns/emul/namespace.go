// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// defaultCompartment is the number of the host's own compartment on Windows.
const defaultCompartment = 1

// compartment reports whether the data plane keeps a compartment for a namespace.
// The built-in namespace is the host itself; guest namespaces belong to virtual
// machines, which the emulator does not have.
func compartment(ns *namespace) bool {
	return !ns.BuiltIn && (ns.Type == schema.Host || ns.Type == schema.HostDefault)
}

// ensureHostNamespace makes the HostDefault namespace that every Windows has.
func ensureHostNamespace(tx *txn) {
	found := false
	tx.namespaces.all(func(ns *namespace) bool { found = ns.BuiltIn; return !found })
	if found {
		return
	}
	id := schema.NewGUID().String()
	tx.setNamespace(id, &namespace{BuiltIn: true, Namespace: schema.Namespace{
		ID: id, NamespaceID: defaultCompartment, Type: schema.HostDefault, SchemaVersion: schema.V2(),
	}})
}

// createNamespace stores a namespace and makes its compartment. The document
// may be as empty as containerd's, which has only the version, 0.0.
func (s *Service) createNamespace(ctx context.Context, id schema.GUID, settings string) (schema.GUID, error) {
	var doc schema.Namespace
	if err := decode(settings, &doc); err != nil {
		return id, err
	}
	id, err := chooseID(id, doc.ID)
	if err != nil {
		return id, err
	}
	ns := &namespace{Namespace: schema.Namespace{
		ID:            id.String(),
		NamespaceID:   doc.NamespaceID,
		Type:          schema.Host,
		SchemaVersion: schema.V2(),
	}}
	if doc.Type != "" {
		i := slices.IndexFunc(schema.NamespaceTypes(), func(t schema.NamespaceType) bool {
			return strings.EqualFold(string(t), string(doc.Type))
		})
		if i < 0 {
			return id, hresult.Errorf(hresult.InvalidArgument, "namespace type %q", doc.Type)
		}
		ns.Type = schema.NamespaceTypes()[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := newTxn(s.current.Load())
	if tx.namespaces.get(ns.ID) != nil {
		return id, hresult.Errorf(hresult.AlreadyExists, "namespace %s", ns.ID)
	}
	chooseCompartment(tx, ns)
	tx.setNamespace(ns.ID, ns)
	if err := s.write(ctx, tx); err != nil {
		return id, err
	}
	if !compartment(ns) {
		return id, nil
	}
	err = s.cfg.DataPlane.CreateNamespace(ctx, ns.ID)
	if err == nil {
		err = fault.Point(ctx, "hns.namespace.after-create")
	}
	if err != nil {
		s.forgetNamespace(context.WithoutCancel(ctx), ns.ID)
		return id, hresult.Errorf(hresult.NamespaceAttachFailed, "create namespace %s: %w", ns.ID, err)
	}
	return id, nil
}

// forgetNamespace undoes a failed createNamespace. If that fails, the namespace
// stays in the store, where its owner can find and delete it.
// Preconditions: mu is held.
func (s *Service) forgetNamespace(ctx context.Context, id string) {
	if err := s.cfg.DataPlane.DeleteNamespace(ctx, id); err != nil {
		s.cfg.Log.Error("namespace stays until it is deleted", logkey.Namespace, id, logkey.Error, err)
		return
	}
	tx := newTxn(s.current.Load())
	tx.setNamespace(id, nil)
	if err := s.write(ctx, tx); err != nil {
		s.cfg.Log.Error("namespace stays until it is deleted", logkey.Namespace, id, logkey.Error, err)
	}
}

// sweep removes the compartments of namespaces that are not in the store: of an
// earlier boot, or made just before a power cut took the end of the journal.
// Compartments not named by a GUID are foreign. Compartments that cannot be removed
// do no harm until the next start.
// Preconditions: mu is held; the data plane has been applied, so that no endpoint
// is in them.
func (s *Service) sweep(ctx context.Context) {
	ids, err := s.cfg.DataPlane.Namespaces(ctx)
	if err != nil {
		s.cfg.Log.Error("orphaned namespaces stay until the service restarts", logkey.Error, err)
		return
	}
	st := s.current.Load()
	for _, id := range ids {
		canonical := schema.CanonicalGUID(id)
		if canonical == "" {
			continue
		}
		if ns := st.namespaces.get(canonical); ns != nil && compartment(ns) {
			continue
		}
		if err := s.cfg.DataPlane.DeleteNamespace(ctx, canonical); err != nil {
			s.cfg.Log.Error("orphaned namespace stays until the service restarts", logkey.Namespace, canonical,
				logkey.Error, err)
			continue
		}
		s.cfg.Log.Info("orphaned namespace removed", logkey.Namespace, canonical)
	}
}

// chooseCompartment keeps the number that the client requested if it is free.
func chooseCompartment(tx *txn, ns *namespace) {
	used := map[uint32]bool{0: true, defaultCompartment: true}
	tx.namespaces.all(func(other *namespace) bool { used[other.NamespaceID] = true; return true })
	if used[ns.NamespaceID] {
		ns.NamespaceID = 0
		for used[ns.NamespaceID] {
			ns.NamespaceID++
		}
	}
}

// deleteNamespace detaches the endpoints of the namespace and removes it.
func (s *Service) deleteNamespace(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := newTxn(s.current.Load())
	ns := tx.namespaces.get(id)
	if ns == nil {
		return notFound(hns.Namespace, id)
	}
	if ns.BuiltIn {
		return hresult.Errorf(hresult.AccessDenied, "delete the host's own namespace")
	}
	dropNamespace(tx, ns)
	if tx.plane {
		if err := s.apply(ctx, &tx.state, s.departed); err != nil {
			return err
		}
	}
	if compartment(ns) {
		err := s.cfg.DataPlane.DeleteNamespace(ctx, id)
		if err == nil {
			err = fault.Point(ctx, "hns.namespace.after-delete")
		}
		if err != nil {
			s.restoreNamespace(ctx, id)
			return hresult.Errorf(hresult.Fail, "delete namespace %s: %w", id, err)
		}
	}
	if err := s.write(ctx, tx); err != nil {
		if compartment(ns) {
			s.restoreNamespace(ctx, id)
		}
		return err
	}
	return nil
}

// restoreNamespace brings the data plane back to the published state after a
// failed deletion.
// Preconditions: mu is held.
func (s *Service) restoreNamespace(ctx context.Context, id string) {
	ctx = context.WithoutCancel(ctx)
	if err := s.cfg.DataPlane.CreateNamespace(ctx, id); err != nil {
		s.cfg.Log.Error("namespace has no compartment until the service restarts", logkey.Namespace, id,
			logkey.Error, err)
	}
	s.revert(ctx)
}

// dropNamespace detaches the endpoints of a namespace and removes it.
func dropNamespace(tx *txn, ns *namespace) {
	for _, id := range ns.Endpoints {
		if e := tx.endpoints.get(id); e != nil {
			detached := *e
			detached.HostComputeNamespace, detached.WasAttached = "", true
			tx.setEndpoint(id, &detached)
			tx.plane = true
		}
	}
	tx.setNamespace(ns.ID, nil)
}

// modifyNamespace adds and removes endpoints and containers.
func (s *Service) modifyNamespace(tx *txn, id, text string) error {
	var req schema.ModifyRequest
	if err := decode(text, &req); err != nil {
		return err
	}
	if tx.namespaces.get(id) == nil {
		return notFound(hns.Namespace, id)
	}
	add := strings.EqualFold(string(req.RequestType), string(schema.Add))
	if !add && !strings.EqualFold(string(req.RequestType), string(schema.Remove)) {
		return hresult.Errorf(hresult.RequestUnsupported, "%s of a namespace's %s", req.RequestType, req.ResourceType)
	}
	switch {
	case strings.EqualFold(req.ResourceType, schema.ResourceEndpoint):
		var v schema.NamespaceEndpointRequest
		if err := decode(string(orEmpty(req.Settings)), &v); err != nil {
			return err
		}
		endpointID := schema.CanonicalGUID(v.EndpointID)
		if add {
			return s.attach(tx, id, endpointID)
		}
		return s.detach(tx, id, endpointID)
	case strings.EqualFold(req.ResourceType, schema.ResourceContainer):
		var v schema.NamespaceContainerRequest
		if err := decode(string(orEmpty(req.Settings)), &v); err != nil {
			return err
		}
		if v.ContainerID == "" {
			return hresult.Errorf(hresult.InvalidArgument, "container without an id")
		}
		setContainer(tx, id, v.ContainerID, add)
		return nil
	}
	return hresult.Errorf(hresult.RequestUnsupported, "modify %s of a namespace", req.ResourceType)
}

func setContainer(tx *txn, id, containerID string, add bool) {
	old := tx.namespaces.get(id)
	if slices.Contains(old.Containers, containerID) == add {
		return
	}
	ns := *old
	ns.Containers = slices.DeleteFunc(slices.Clone(old.Containers), func(c string) bool { return c == containerID })
	if add {
		ns.Containers = append(ns.Containers, containerID)
	}
	tx.setNamespace(id, &ns)
}

// attach puts an endpoint into a namespace. Doing it again succeeds: win-bridge
// does so when ADD is repeated. The host's own namespace means an adapter of the
// host, as the v1 attach with the system type Host does.
func (s *Service) attach(tx *txn, nsID, endpointID string) error {
	ns, e := tx.namespaces.get(nsID), tx.endpoints.get(endpointID)
	switch {
	case ns == nil:
		return notFound(hns.Namespace, nsID)
	case e == nil:
		return notFound(hns.Endpoint, endpointID)
	case e.remote():
		return hresult.Errorf(hresult.EndpointNotLocal, "attach remote endpoint %s", e.ID)
	case e.HostComputeNamespace == nsID:
		return nil
	case e.HostComputeNamespace != "":
		return hresult.Errorf(hresult.EndpointNamespaceAlreadyExists, "endpoint %s is in namespace %s", e.ID,
			e.HostComputeNamespace)
	}
	attached := *e
	attached.HostComputeNamespace, attached.HostAttached = nsID, ns.BuiltIn
	tx.setEndpoint(e.ID, &attached)
	changed := *ns
	changed.Endpoints = append(slices.Clone(ns.Endpoints), e.ID)
	tx.setNamespace(nsID, &changed)
	tx.plane = true
	return nil
}

// detach takes an endpoint out of a namespace. It succeeds if the endpoint is
// not there: win-bridge's DEL takes every error as fatal, and is repeated.
func (s *Service) detach(tx *txn, nsID, endpointID string) error {
	e := tx.endpoints.get(endpointID)
	if e == nil || e.HostComputeNamespace != nsID {
		return nil
	}
	detached := *leaveNamespace(tx, e)
	detached.WasAttached = true
	tx.setEndpoint(e.ID, &detached)
	return nil
}

// leaveNamespace updates the namespace of an attached endpoint and returns the
// detached endpoint, which it does not store.
func leaveNamespace(tx *txn, e *endpoint) *endpoint {
	if ns := tx.namespaces.get(e.HostComputeNamespace); ns != nil {
		changed := *ns
		changed.Endpoints = slices.DeleteFunc(slices.Clone(ns.Endpoints), func(id string) bool { return id == e.ID })
		tx.setNamespace(ns.ID, &changed)
	}
	detached := *e
	detached.HostComputeNamespace, detached.HostAttached = "", false
	tx.plane = true
	return &detached
}

// resources returns the namespace's list as both views show it.
func (ns *namespace) resources() []schema.NamespaceResource {
	var out []schema.NamespaceResource
	add := func(kind, id string) {
		b, err := json.Marshal(schema.NamespaceResourceData{ID: id})
		if err != nil {
			panic(err) // a struct of one string
		}
		out = append(out, schema.NamespaceResource{Type: kind, Data: b})
	}
	for _, id := range ns.Endpoints {
		add(schema.ResourceEndpoint, id)
	}
	for _, id := range ns.Containers {
		add(schema.ResourceContainer, id)
	}
	return out
}

// sharedContainers returns the containers of an endpoint as the v1 view shows them.
// The kubelet finds a pod's counters by the sandbox's id in this list. If the
// runtime has not reported the containers of the namespace, the id comes from the
// name that the CNI plugins give an endpoint, <container id>_<network>.
func sharedContainers(s *state, e *endpoint) []string {
	out := slices.Clone(e.Containers)
	ns := s.namespaces.get(e.HostComputeNamespace)
	if ns == nil || ns.BuiltIn {
		return out
	}
	out = append(out, ns.Containers...)
	if n := s.networks.get(e.HostComputeNetwork); len(out) == 0 && n != nil {
		if id, ok := strings.CutSuffix(e.Name, "_"+n.Name); ok {
			out = append(out, id)
		}
	}
	return out
}
