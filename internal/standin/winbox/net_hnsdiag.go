// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// hnsCaller reaches the Host Networking Service.
type hnsCaller interface {
	// HNSCall makes a call, with method and path as in HTTP, and returns the response of HNS.
	HNSCall(ctx context.Context, method, path string) (response string, err error)
}

const hnsdiagUsage = "Usage: hnsdiag list {all | networks | endpoints | namespaces | loadbalancers} [-d | -df]\n" +
	"       hnsdiag delete {networks | endpoints | namespaces | loadbalancers} ID\n"

// hnsKind is a kind of objects as hnsdiag lists them.
type hnsKind struct {
	name, title, path string
	heading           string
	row               func(object json.RawMessage) (string, error)
}

// hnsKinds are in the order of `list all`. The tables follow output that users posted
// (https://github.com/kubernetes-sigs/sig-windows-tools/issues/168); the columns of load balancers are not documented.
func hnsKinds() []hnsKind {
	return []hnsKind{
		{"networks", "Networks", "/networks/", "Name             ID", networkRow},
		{"endpoints", "Endpoints", "/endpoints/",
			"Name             ID                                   Virtual Network Name", endpointRow},
		{"namespaces", "Namespaces", "/namespaces/",
			"ID                                   | Endpoint IDs", namespaceRow},
		{"loadbalancers", "LoadBalancers", "/policylists/",
			"ID                                   | Virtual IPs      | Direct IP IDs", balancerRow},
	}
}

// hnsdiag lists and deletes objects of HNS. With -d it prints the JSON of each object, endpoints with their ACLs; with
// -df it indents the JSON.
func hnsdiag(ctx context.Context, env *Env) int {
	if len(env.Args) < 2 {
		env.printf("%s", hnsdiagUsage)
		return 1
	}
	verb, name, rest := strings.ToLower(env.Args[0]), strings.ToLower(env.Args[1]), env.Args[2:]
	kinds := slices.DeleteFunc(hnsKinds(), func(k hnsKind) bool {
		return name != k.name && (name != "all" || verb != "list")
	})
	var err error
	switch {
	case verb == "list" && len(kinds) > 0 && len(rest) == 0:
		err = listHNS(ctx, env, kinds, "")
	case verb == "list" && len(kinds) > 0 && len(rest) == 1 && (rest[0] == "-d" || rest[0] == "-df"):
		err = listHNS(ctx, env, kinds, rest[0])
	case verb == "delete" && len(kinds) == 1 && len(rest) == 1:
		_, err = askHNS(ctx, env.System, "DELETE", kinds[0].path+rest[0])
	default:
		env.printf("%s", hnsdiagUsage)
		return 1
	}
	if err != nil {
		env.errorf("%v\n", err)
		return 1
	}
	return 0
}

// listHNS prints objects as a table, or the JSON that HNS returns for each.
func listHNS(ctx context.Context, env *Env, kinds []hnsKind, detail string) error {
	for i, k := range kinds {
		output, err := askHNS(ctx, env.System, "GET", k.path)
		if err != nil {
			return err
		}
		var list []json.RawMessage
		if err := json.Unmarshal(output, &list); err != nil {
			return fmt.Errorf("%s of HNS: %w", k.name, err)
		}
		if len(kinds) > 1 {
			if i > 0 {
				env.printf("\n")
			}
			env.printf("%s:\n", k.title)
		}
		if detail == "" {
			env.printf("%s\n", k.heading)
		}
		for _, o := range list {
			line, err := k.describe(o, detail)
			if err != nil {
				return fmt.Errorf("%s of HNS: %w", k.name, err)
			}
			env.printf("%s\n", line)
		}
	}
	return nil
}

func (k hnsKind) describe(o json.RawMessage, detail string) (string, error) {
	switch detail {
	case "-d":
		return string(o), nil
	case "-df":
		var b bytes.Buffer
		err := json.Indent(&b, o, "", "    ")
		return b.String(), err
	}
	return k.row(o)
}

// askHNS calls HNS and returns the output.
func askHNS(ctx context.Context, hns hnsCaller, method, path string) (json.RawMessage, error) {
	text, err := hns.HNSCall(ctx, method, path)
	if err != nil {
		return nil, fmt.Errorf("HNS %s %s: %w", method, path, err)
	}
	output, err := schema.ParseResponse(text)
	if err != nil {
		return nil, fmt.Errorf("HNS %s %s: %w", method, path, err)
	}
	return output, nil
}

func networkRow(o json.RawMessage) (string, error) {
	var n schema.V1Network
	err := json.Unmarshal(o, &n)
	return fmt.Sprintf("%-16s %s", n.Name, n.ID), err
}

func endpointRow(o json.RawMessage) (string, error) {
	var e schema.V1Endpoint
	err := json.Unmarshal(o, &e)
	return fmt.Sprintf("%-16s %-36s %s", e.Name, e.ID, e.VirtualNetworkName), err
}

func namespaceRow(o json.RawMessage) (string, error) {
	var n schema.V1Namespace
	if err := json.Unmarshal(o, &n); err != nil {
		return "", err
	}
	var endpoints []string
	for _, r := range n.ResourceList {
		if r.Type != schema.ResourceEndpoint {
			continue
		}
		var e schema.NamespaceResourceData
		if err := json.Unmarshal(r.Data, &e); err != nil {
			return "", err
		}
		endpoints = append(endpoints, e.ID)
	}
	return fmt.Sprintf("%-36s | %s", n.ID, strings.Join(endpoints, ", ")), nil
}

func balancerRow(o json.RawMessage) (string, error) {
	var l schema.V1PolicyList
	if err := json.Unmarshal(o, &l); err != nil {
		return "", err
	}
	var vips, endpoints []string
	for _, p := range l.Policies {
		var b schema.V1ELB
		if err := json.Unmarshal(p, &b); err != nil {
			return "", err
		}
		vips = append(vips, b.VIPs...)
	}
	for _, r := range l.References {
		endpoints = append(endpoints, r[strings.LastIndex(r, "/")+1:])
	}
	return fmt.Sprintf("%-36s | %-16s | %s", l.ID, strings.Join(vips, ", "), strings.Join(endpoints, ", ")), nil
}
