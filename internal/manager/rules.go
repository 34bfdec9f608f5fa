// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mullion-k8s/mullion/internal/manager/certificate"
	"github.com/mullion-k8s/mullion/internal/manager/controller/localvolume"
	"github.com/mullion-k8s/mullion/internal/manager/controller/podlimit"
	"github.com/mullion-k8s/mullion/internal/manager/controller/podreason"
	"github.com/mullion-k8s/mullion/internal/manager/controller/runtimeclass"
	"github.com/mullion-k8s/mullion/internal/manager/controller/windowsnode"
	"github.com/mullion-k8s/mullion/internal/manager/facts"
	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/otherwebhooks"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
)

// ClusterRules are the rights that a manager needs in the whole cluster.
func (c Config) ClusterRules() []rbacv1.PolicyRule {
	out := slices.Concat(registration.Rules(), c.ownerRules(), otherwebhooks.Rules(), facts.Rules(),
		runtimeclass.Rules(), windowsnode.Rules(), podreason.Rules(), podlimit.Rules())
	if !c.NoGMSA {
		out = append(out, gmsa.Rules()...)
	}
	if c.Storage {
		out = append(out, localvolume.Rules()...)
	}
	return out
}

// NamespaceRules are the rights that it needs in its own namespace.
func (c Config) NamespaceRules() []rbacv1.PolicyRule {
	out := slices.Concat(certificate.Rules(inventory.Secret), facts.NamespaceRules())
	if c.Storage {
		out = append(out, localvolume.NamespaceRules()...)
	}
	if c.LeaderElection {
		out = append(out,
			rbacv1.PolicyRule{
				APIGroups:     []string{"coordination.k8s.io"},
				Resources:     []string{"leases"},
				ResourceNames: []string{inventory.Lease},
				Verbs:         []string{"get", "update"},
			},
			rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
				Verbs: []string{"create"}})
	}
	return out
}
