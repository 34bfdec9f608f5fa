// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/manager/controller/localvolume"
	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// account returns the manager's service account and its rights. Rights on
// objects that it creates are restricted by name, except create, because RBAC
// does not see the name then.
func (c Config) account() inventory.Manager {
	return inventory.Manager{
		Name:           Name,
		Namespace:      c.Namespace,
		Labels:         labels(),
		Subject:        rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: Name},
		ClusterRules:   c.clusterRules(),
		NamespaceRules: c.namespaceRules(),
	}
}

// manager returns the part of the manager's configuration that determines its
// rights.
func (c Config) manager() manager.Config {
	return manager.Config{NoGMSA: c.NoGMSA, OwnerClusterRole: Name, LeaderElection: true}
}

// rights holds the rights of all configurations, in parts. The chart contains
// them as a file, under their JSON names.
type rights struct {
	Cluster         []rbacv1.PolicyRule `json:"cluster"`
	GMSA            []rbacv1.PolicyRule `json:"gmsa"`            // unless NoGMSA
	Registries      []rbacv1.PolicyRule `json:"registries"`      // unless NoRegistries
	ReadPullSecrets []rbacv1.PolicyRule `json:"readPullSecrets"` // if ReadPullSecrets
	Storage         []rbacv1.PolicyRule `json:"storage"`         // if Storage
	Namespace       []rbacv1.PolicyRule `json:"namespace"`       // in the manager's own
	// StorageNamespace is in the manager's own namespace, too, if Storage.
	StorageNamespace []rbacv1.PolicyRule `json:"storageNamespace"`
}

func allRights() rights {
	m := Config{NoGMSA: true}.manager()
	// The right to read credentials of registries is listed separately, because
	// the user decides whether to grant it.
	registries, secrets := policyRule("", "serviceaccounts", "get"), policyRule("", "secrets", "get")
	cluster := slices.DeleteFunc(merge(m.ClusterRules()), func(r rbacv1.PolicyRule) bool {
		return r.String() == registries.String() || slices.Contains(r.Resources, "secrets")
	})
	return rights{
		Cluster:         cluster,
		GMSA:            merge(gmsa.Rules()),
		Registries:      []rbacv1.PolicyRule{registries},
		ReadPullSecrets: []rbacv1.PolicyRule{secrets},
		Storage:         merge(localvolume.Rules()),
		Namespace:       merge(m.NamespaceRules()),

		StorageNamespace: merge(localvolume.NamespaceRules()),
	}
}

// clusterRules returns the cluster-wide rights.
func (c Config) clusterRules() []rbacv1.PolicyRule {
	all := allRights()
	rules := all.Cluster
	if !c.NoGMSA {
		rules = append(rules, all.GMSA...)
	}
	if !c.NoRegistries {
		rules = append(rules, all.Registries...)
	}
	if c.ReadPullSecrets {
		rules = append(rules, all.ReadPullSecrets...)
	}
	if c.Storage {
		rules = append(rules, all.Storage...)
	}
	return rules
}

// namespaceRules returns the rights in the manager's namespace.
func (c Config) namespaceRules() []rbacv1.PolicyRule {
	all := allRights()
	if c.Storage {
		return append(all.Namespace, all.StorageNamespace...)
	}
	return all.Namespace
}

func policyRule(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups:     []string{group},
		Resources:     strings.Fields(resources),
		ResourceNames: names,
		Verbs:         strings.Fields(verbs),
	}
}

// merge combines rules: first the verbs of the same resource and names, then
// the resources of one group with the same verbs. The order of the given rules
// does not matter.
func merge(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type key struct{ group, resource, names string }
	verbs := map[key][]string{}
	for _, r := range rules {
		for _, g := range r.APIGroups {
			for _, res := range r.Resources {
				k := key{g, res, strings.Join(slices.Sorted(slices.Values(r.ResourceNames)), " ")}
				verbs[k] = append(verbs[k], r.Verbs...)
			}
		}
	}
	// A right for all names includes rights for some names.
	for k, v := range verbs {
		if all, ok := verbs[key{k.group, k.resource, ""}]; ok && k.names != "" {
			verbs[k] = slices.DeleteFunc(slices.Clone(v), func(x string) bool { return slices.Contains(all, x) })
		}
	}
	type same struct {
		group, names, verbs string
		secrets             bool // rules for Secrets stay separate, so that readers notice them
	}
	resources := map[same][]string{}
	for k, v := range verbs {
		slices.Sort(v)
		if v = slices.Compact(v); len(v) > 0 {
			s := same{k.group, k.names, strings.Join(v, " "), k.resource == "secrets"}
			resources[s] = append(resources[s], k.resource)
		}
	}
	var out []rbacv1.PolicyRule
	for s, res := range resources {
		slices.Sort(res)
		out = append(out, policyRule(s.group, strings.Join(res, " "), s.verbs, strings.Fields(s.names)...))
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(cmp.Compare(a.APIGroups[0], b.APIGroups[0]), slices.Compare(a.Resources, b.Resources),
			slices.Compare(a.ResourceNames, b.ResourceNames), slices.Compare(a.Verbs, b.Verbs))
	})
	return out
}
