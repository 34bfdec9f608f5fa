// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bridge

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

// find returns the objects of a kind whose property has the value, with the same query as hnslib
// (hcn/hcnnetwork.go, GetNetworkByName). One that is removed meanwhile is left out.
func find[T any](ctx context.Context, api hns.API, kind hns.Kind, property, value string) ([]T, error) {
	filter, err := json.Marshal(map[string]string{property: value})
	if err != nil {
		return nil, err
	}
	query, err := json.Marshal(schema.Query{SchemaVersion: schema.V2(), Filter: string(filter)})
	if err != nil {
		return nil, err
	}
	answer, err := api.Enumerate(ctx, kind, string(query))
	if err != nil {
		return nil, fmt.Errorf("find %s %s: %w", kind, value, err)
	}
	var ids []string
	if err := json.Unmarshal([]byte(answer), &ids); err != nil {
		return nil, fmt.Errorf("find %s %s: read %.100q: %w", kind, value, answer, err)
	}
	var list []T
	for _, id := range ids {
		guid, err := schema.ParseGUID(id)
		if err != nil {
			return nil, fmt.Errorf("find %s %s: %w", kind, value, err)
		}
		doc, err := read[T](ctx, api, kind, guid)
		if notFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, doc)
	}
	return list, nil
}

// read reads one object.
func read[T any](ctx context.Context, api hns.API, kind hns.Kind, id schema.GUID) (doc T, err error) {
	query, err := json.Marshal(schema.Query{SchemaVersion: schema.V2()})
	if err != nil {
		return doc, err
	}
	text, err := api.Query(ctx, kind, id, string(query))
	if err != nil {
		return doc, fmt.Errorf("query %s %s: %w", kind, id, err)
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return doc, fmt.Errorf("query %s %s: read %.100q: %w", kind, id, text, err)
	}
	return doc, nil
}

// notFound reports whether HNS has no such object (hnslib v0.1.2 hcn/hcnerrors.go, IsNotFoundError and its codes).
func notFound(err error) bool {
	return errors.Is(err, hresult.EndpointNotFound) || errors.Is(err, hresult.NetworkNotFound) ||
		errors.Is(err, hresult.NotFound)
}

// move adds an endpoint to a namespace or removes it. It succeeds if that is done already.
func move(ctx context.Context, api hns.API, how schema.RequestType, namespace, endpoint string) error {
	id, err := schema.ParseGUID(namespace)
	if err != nil {
		return fmt.Errorf("namespace %q: %w", namespace, err)
	}
	settings, err := json.Marshal(schema.NamespaceEndpointRequest{EndpointID: endpoint})
	if err != nil {
		return err
	}
	request, err := json.Marshal(schema.ModifyRequest{ResourceType: schema.ResourceEndpoint, RequestType: how,
		Settings: settings})
	if err != nil {
		return err
	}
	if err := api.Modify(ctx, hns.Namespace, id, string(request)); err != nil {
		return fmt.Errorf("%s endpoint %s, namespace %s: %w", strings.ToLower(string(how)), endpoint, namespace, err)
	}
	return nil
}

// remove takes an endpoint out of its namespace and deletes it.
func remove(ctx context.Context, api hns.API, e schema.Endpoint) error {
	if e.HostComputeNamespace != "" {
		if err := move(ctx, api, schema.Remove, e.HostComputeNamespace, e.ID); err != nil && !notFound(err) {
			return err
		}
	}
	id, err := schema.ParseGUID(e.ID)
	if err != nil {
		return fmt.Errorf("endpoint %q: %w", e.ID, err)
	}
	if err := api.Delete(ctx, hns.Endpoint, id); err != nil && !notFound(err) {
		return fmt.Errorf("delete endpoint %s: %w", e.Name, err)
	}
	return nil
}
