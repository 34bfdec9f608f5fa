// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// Call implements hns.API: the REST calls of HNS v1. Failures are returned in the
// response, as newer builds of Windows do; older ones failed the HRESULT.
func (s *Service) Call(ctx context.Context, method, path, request string) (response string, err error) {
	began := time.Now()
	output, err := s.route(ctx, strings.ToUpper(method), path, request)
	s.log(ctx, method, path, began, err)
	if err != nil {
		return encode(schema.Response{Error: hresult.Text(err) + " ", ErrorCode: uint32(hresult.Of(err))})
	}
	r := schema.Response{Success: true}
	if output != nil {
		b, err := json.Marshal(output)
		if err != nil {
			return "", hresult.Errorf(hresult.Unexpected, "encode answer: %w", err)
		}
		r.Output = b
	}
	return encode(r)
}

// route finds the handler of a path: /<collection>/[<id>[/<verb>]].
func (s *Service) route(ctx context.Context, method, path, request string) (any, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	collection, id, verb := strings.ToLower(parts[0]), "", ""
	if len(parts) > 1 {
		id = parts[1]
	}
	if len(parts) > 2 {
		verb = strings.ToLower(parts[2])
	}
	if collection == "globals" && strings.EqualFold(id, "version") && method == "GET" {
		return s.cfg.Version, nil
	}
	if id != "" && collection != "globals" {
		if id = schema.CanonicalGUID(id); id == "" {
			return nil, hresult.Errorf(hresult.InvalidArgument, "%s %s", method, path)
		}
	}
	if len(parts) <= 3 {
		switch collection {
		case "networks":
			return s.v1Networks(ctx, method, id, verb, request)
		case "endpoints":
			return s.v1Endpoints(ctx, method, id, verb, request)
		case "endpointstats":
			if method == "GET" && id != "" && verb == "" {
				return s.v1Stats(ctx, id)
			}
		case "policylists":
			return s.v1PolicyLists(ctx, method, id, verb, request)
		case "namespaces":
			return s.v1Namespaces(ctx, method, id, verb, request)
		case "accelnet":
			return s.v1Accelnet(ctx, method, request)
		}
	}
	return nil, unknownCall(method, path)
}

func unknownCall(method, path string) error {
	return hresult.Errorf(hresult.RequestUnsupported, "%s %s", method, path)
}

func (s *Service) v1Networks(ctx context.Context, method, id, verb, request string) (any, error) {
	st := s.current.Load()
	one := func(id string) (any, error) {
		if n := s.current.Load().networks.get(id); n != nil {
			return s.networkToV1(n), nil
		}
		return nil, notFound(hns.Network, id)
	}
	switch {
	case verb != "":
	case method == "GET" && id == "":
		out := []schema.V1Network{}
		st.networks.all(func(n *network) bool { out = append(out, s.networkToV1(n)); return true })
		return out, nil
	case method == "GET":
		return one(id)
	case method == "POST" && id == "":
		made, err := s.Create(ctx, hns.Network, schema.GUID{}, schema.GUID{}, v1Only(request, "Subnets"))
		if err != nil {
			return nil, err
		}
		return one(made.String())
	case method == "DELETE" && id != "":
		guid, _ := schema.ParseGUID(id) // canonical
		return nil, s.Delete(ctx, hns.Network, guid)
	}
	return nil, unknownCall(method, "/networks/"+id+"/"+verb)
}

// v1Only makes sure that a document which came through the v1 API is read as
// one: a network with only a name and a type would pass for either.
func v1Only(request, key string) string {
	var doc map[string]json.RawMessage
	if json.Unmarshal([]byte(request), &doc) != nil || doc == nil {
		return request
	}
	for k := range doc {
		if strings.EqualFold(k, "SchemaVersion") {
			delete(doc, k)
		}
		if strings.EqualFold(k, key) {
			key = k
		}
	}
	if _, ok := doc[key]; !ok {
		doc[key] = json.RawMessage("null")
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return request
	}
	return string(b)
}

func (s *Service) v1Endpoints(ctx context.Context, method, id, verb, request string) (any, error) {
	st := s.current.Load()
	one := func(id string) (any, error) {
		st := s.current.Load()
		if e := st.endpoints.get(id); e != nil {
			return endpointToV1(st, e), nil
		}
		return nil, notFound(hns.Endpoint, id)
	}
	guid, _ := schema.ParseGUID(id) // canonical or empty
	switch {
	case method == "POST" && id != "" && (verb == "attach" || verb == "detach"):
		return nil, s.v1Attach(ctx, id, request, verb == "attach")
	case verb != "":
	case method == "GET" && id == "":
		out := []schema.V1Endpoint{}
		st.endpoints.all(func(e *endpoint) bool { out = append(out, endpointToV1(st, e)); return true })
		return out, nil
	case method == "GET":
		return one(id)
	case method == "POST" && id == "":
		made, err := s.Create(ctx, hns.Endpoint, schema.GUID{}, schema.GUID{}, v1Only(request, "VirtualNetwork"))
		if err != nil {
			return nil, err
		}
		return one(made.String())
	case method == "POST":
		if err := s.v1UpdateEndpoint(ctx, id, request); err != nil {
			return nil, err
		}
		return one(id)
	case method == "DELETE" && id != "":
		if st.endpoints.get(id) == nil {
			return nil, notFound(hns.Endpoint, id)
		}
		return nil, s.Delete(ctx, hns.Endpoint, guid)
	}
	return nil, unknownCall(method, "/endpoints/"+id+"/"+verb)
}

// v1UpdateEndpoint replaces the policies of an endpoint, as hnslib's ApplyACLPolicy
// and ApplyProxyPolicy request.
func (s *Service) v1UpdateEndpoint(ctx context.Context, id, request string) error {
	var v schema.V1Endpoint
	if err := decode(request, &v); err != nil {
		return err
	}
	policies, err := policiesFromV1(v.Policies)
	if err != nil {
		return err
	}
	if err := checkPolicies(policies, schema.EndpointPolicies()); err != nil {
		return err
	}
	return s.mutate(ctx, func(tx *txn) error {
		old := tx.endpoints.get(id)
		if old == nil {
			return notFound(hns.Endpoint, id)
		}
		e := *old
		e.Policies = policies
		if v.EncapOverhead > 0 {
			e.Policies = append(e.Policies,
				newPolicy(schema.EncapOverheadPolicy, schema.EncapOverheadSetting{Overhead: v.EncapOverhead}))
		}
		if err := checkPortMappings(tx, &e); err != nil {
			return err
		}
		tx.setEndpoint(id, &e)
		tx.plane = true
		return nil
	})
}

// v1Attach attaches to the host (flannel's bridge endpoint), or notes that a
// container shares the endpoint.
//
// Fidelity: subset - virtual machines are refused (docs/fidelity/hns.md).
func (s *Service) v1Attach(ctx context.Context, id, request string, attach bool) error {
	var v schema.V1AttachRequest
	if err := decode(request, &v); err != nil {
		return err
	}
	return s.mutate(ctx, func(tx *txn) error {
		e := tx.endpoints.get(id)
		if e == nil {
			return notFound(hns.Endpoint, id)
		}
		switch {
		case strings.EqualFold(v.SystemType, schema.SystemHost):
			var host string
			for ns := range tx.namespaces.all {
				if ns.BuiltIn {
					host = ns.ID
				}
			}
			if !attach {
				return s.detach(tx, host, id)
			}
			if e.HostComputeNamespace != "" {
				return hresult.Errorf(hresult.EndpointAlreadyAttached, "endpoint %s", id)
			}
			return s.attach(tx, host, id)
		case strings.EqualFold(v.SystemType, schema.SystemContainer) && v.ContainerID != "":
			changed := *e
			changed.Containers = slices.DeleteFunc(slices.Clone(e.Containers), func(c string) bool {
				return strings.EqualFold(c, v.ContainerID)
			})
			if attach {
				changed.Containers = append(changed.Containers, v.ContainerID)
			} else {
				changed.WasAttached = true
			}
			tx.setEndpoint(id, &changed)
			return nil
		}
		return hresult.Errorf(hresult.RequestUnsupported, "attach endpoint %s to a %s", id, v.SystemType)
	})
}

// v1Stats returns zeros for an endpoint without an adapter: the kubelet queries
// every endpoint, remote ones too.
func (s *Service) v1Stats(ctx context.Context, id string) (any, error) {
	e := s.current.Load().endpoints.get(id)
	if e == nil {
		return nil, notFound(hns.Endpoint, id)
	}
	if e.HostComputeNamespace == "" || e.HostAttached {
		return statsToV1(id, intent.Stats{}), nil
	}
	v, err := s.cfg.DataPlane.Stats(ctx, id)
	if err != nil {
		return nil, hresult.Errorf(hresult.Fail, "read counters of endpoint %s: %w", id, err)
	}
	return statsToV1(id, v), nil
}

func (s *Service) v1PolicyLists(ctx context.Context, method, id, verb, request string) (any, error) {
	st := s.current.Load()
	one := func(id string) (any, error) {
		st := s.current.Load()
		if lb := st.balancers.get(id); lb != nil {
			return balancerToV1(lb), nil
		}
		if r := st.routes.get(id); r != nil {
			return routeToV1(r), nil
		}
		return nil, notFound(hns.LoadBalancer, id)
	}
	switch {
	case verb != "":
	case method == "GET" && id == "":
		out := []schema.V1PolicyList{}
		st.balancers.all(func(lb *balancer) bool { out = append(out, balancerToV1(lb)); return true })
		st.routes.all(func(r *sdnRoute) bool { out = append(out, routeToV1(r)); return true })
		return out, nil
	case method == "GET":
		return one(id)
	case method == "POST" && id == "":
		var v schema.V1PolicyList
		if err := decode(request, &v); err != nil {
			return nil, err
		}
		made, err := chooseID(schema.GUID{}, v.ID)
		if err != nil {
			return nil, err
		}
		if err := s.mutate(ctx, func(tx *txn) error { return policyListFromV1(tx, made.String(), v) }); err != nil {
			return nil, err
		}
		return one(made.String())
	case method == "DELETE" && id != "":
		return nil, s.mutate(ctx, func(tx *txn) error {
			switch {
			case tx.balancers.get(id) != nil:
				tx.setBalancer(id, nil)
			case tx.routes.get(id) != nil:
				tx.setRoute(id, nil)
			default:
				return notFound(hns.LoadBalancer, id)
			}
			return nil
		})
	}
	return nil, unknownCall(method, "/policylists/"+id+"/"+verb)
}

func (s *Service) v1Namespaces(ctx context.Context, method, id, verb, request string) (any, error) {
	st := s.current.Load()
	one := func(id string) (any, error) {
		if ns := s.current.Load().namespaces.get(id); ns != nil {
			return namespaceToV1(ns), nil
		}
		return nil, notFound(hns.Namespace, id)
	}
	guid, _ := schema.ParseGUID(id) // canonical or empty
	switch {
	case method == "POST" && id != "" && (verb == "addresource" || verb == "removeresource"):
		if err := s.v1NamespaceResource(ctx, id, request, verb == "addresource"); err != nil {
			return nil, err
		}
		return one(id)
	case verb != "":
	case method == "GET" && id == "":
		out := []schema.V1Namespace{}
		st.namespaces.all(func(ns *namespace) bool { out = append(out, namespaceToV1(ns)); return true })
		return out, nil
	case method == "GET":
		return one(id)
	case method == "POST" && id == "":
		made, err := s.Create(ctx, hns.Namespace, schema.GUID{}, schema.GUID{}, "{}")
		if err != nil {
			return nil, err
		}
		return one(made.String())
	case method == "DELETE" && id != "":
		return nil, s.Delete(ctx, hns.Namespace, guid)
	}
	return nil, unknownCall(method, "/namespaces/"+id+"/"+verb)
}

func (s *Service) v1NamespaceResource(ctx context.Context, id, request string, add bool) error {
	var v schema.NamespaceResource
	if err := decode(request, &v); err != nil {
		return err
	}
	var data schema.NamespaceResourceData
	if err := decode(string(orEmpty(v.Data)), &data); err != nil {
		return err
	}
	return s.mutate(ctx, func(tx *txn) error {
		switch {
		case tx.namespaces.get(id) == nil:
			return notFound(hns.Namespace, id)
		case strings.EqualFold(v.Type, schema.ResourceContainer) && data.ID != "":
			setContainer(tx, id, data.ID, add)
			return nil
		case !strings.EqualFold(v.Type, schema.ResourceEndpoint):
			return hresult.Errorf(hresult.RequestUnsupported, "resource of type %q", v.Type)
		case add:
			return s.attach(tx, id, schema.CanonicalGUID(data.ID))
		}
		return s.detach(tx, id, schema.CanonicalGUID(data.ID))
	})
}

// v1Accelnet keeps a list of MAC addresses, which has no effect.
func (s *Service) v1Accelnet(ctx context.Context, method, request string) (any, error) {
	list := func() schema.V1MacList {
		out := schema.V1MacList{}
		if g := s.current.Load().globals.get(globalAccelnet); g != nil {
			for _, mac := range g.Values {
				out.MacAddressList = append(out.MacAddressList, schema.V1Mac{MacAddress: mac})
			}
		}
		return out
	}
	var macs []string
	switch method {
	case "GET":
		return list(), nil
	case "POST":
		var v schema.V1MacList
		if err := decode(request, &v); err != nil {
			return nil, err
		}
		for _, m := range v.MacAddressList {
			mac, err := canonicalMAC(m.MacAddress)
			if err != nil {
				return nil, hresult.Errorf(hresult.InvalidArgument, "%w", err)
			}
			macs = append(macs, mac)
		}
	case "DELETE":
	default:
		return nil, unknownCall(method, "/accelnet/")
	}
	err := s.mutate(ctx, func(tx *txn) error { tx.setGlobal(globalAccelnet, &global{Values: macs}); return nil })
	return list(), err
}
