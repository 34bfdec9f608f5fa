// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// account is who the manager is and what it may do. Rights on objects that it
// makes are by name; create cannot be, because RBAC does not see the name.
func (c Config) account() inventory.Manager {
	return inventory.Manager{
		Name:           Name,
		Namespace:      c.Namespace,
		Labels:         labels(),
		Subject:        rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: Name},
		ClusterRules:   c.clusterRules(),
		NamespaceRules: allRights().Namespace,
	}
}

// manager is the manager's configuration as far as its rights depend on it.
func (c Config) manager() manager.Config {
	return manager.Config{NoGMSA: c.NoGMSA, OwnerClusterRole: Name, LeaderElection: true}
}

// rights are those of all configurations, in parts. The chart has them as a
// file; its names are those in JSON.
type rights struct {
	Cluster         []rbacv1.PolicyRule `json:"cluster"`
	GMSA            []rbacv1.PolicyRule `json:"gmsa"`            // unless NoGMSA
	Registries      []rbacv1.PolicyRule `json:"registries"`      // unless NoRegistries
	ReadPullSecrets []rbacv1.PolicyRule `json:"readPullSecrets"` // if ReadPullSecrets
	Namespace       []rbacv1.PolicyRule `json:"namespace"`       // in the manager's own
}

func allRights() rights {
	m := Config{NoGMSA: true}.manager()
	// What reads credentials of registries says so among its rights; whether it may
	// is for the user to decide.
	registries, secrets := rule("", "serviceaccounts", "get"), rule("", "secrets", "get")
	cluster := slices.DeleteFunc(merge(m.ClusterRules()), func(r rbacv1.PolicyRule) bool {
		return r.String() == registries.String() || slices.Contains(r.Resources, "secrets")
	})
	return rights{
		Cluster: cluster, GMSA: merge(gmsa.Rules()), Registries: []rbacv1.PolicyRule{registries}, ReadPullSecrets: []rbacv1.PolicyRule{secrets},
		Namespace: merge(m.NamespaceRules()),
	}
}

// clusterRules are the rights in the whole cluster.
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
	return rules
}

func rule(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), ResourceNames: names, Verbs: strings.Fields(verbs)}
}

// merge says the same in fewer rules: verbs of one resource and the same names
// together, then resources of one group with the same verbs. The order of the
// given rules does not matter.
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
	// What holds for all names need not be said for some.
	for k, v := range verbs {
		if all, ok := verbs[key{k.group, k.resource, ""}]; ok && k.names != "" {
			verbs[k] = slices.DeleteFunc(slices.Clone(v), func(x string) bool { return slices.Contains(all, x) })
		}
	}
	type same struct {
		group, names, verbs string
		secrets             bool // a reader of the rules must not overlook these
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
		out = append(out, rule(s.group, strings.Join(res, " "), s.verbs, strings.Fields(s.names)...))
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(cmp.Compare(a.APIGroups[0], b.APIGroups[0]), slices.Compare(a.Resources, b.Resources), slices.Compare(a.ResourceNames, b.ResourceNames), slices.Compare(a.Verbs, b.Verbs))
	})
	return out
}
