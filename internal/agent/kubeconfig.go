// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"regexp"

	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
)

// newKubeconfig returns the kubeconfig of a program of the node.
func newKubeconfig(c Cluster, ca []byte, user string, credentials kubeconfig.Credentials) kubeconfig.Config {
	const name = "mullion" // of the cluster and the context: the file has no other
	cluster := kubeconfig.WithCAData(name, c.Server, ca)
	return kubeconfig.ForUser(name, cluster, kubeconfig.User{Name: user, User: credentials})
}

// validToken is the form of bootstrap tokens
// (k8s.io/cluster-bootstrap/token/api, BootstrapTokenPattern). That package links
// Kubernetes' types, which the agent can do without.
var validToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
