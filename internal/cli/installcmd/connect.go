// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package installcmd

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/install"
)

// connect finds the cluster as kubectl does. It does not contact the cluster.
func (t *target) connect() (*install.Cluster, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: t.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", cli.Environmentf("choose a file with --kubeconfig or $KUBECONFIG",
			"find the cluster: there is no kubeconfig")
	}
	if err != nil {
		return nil, "", cli.Usagef("find the cluster: %w", err)
	}
	cfg.UserAgent = "mullion-install"
	c, err := install.Connect(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("find the cluster: %w", err)
	}
	return c, cfg.Host, nil
}
