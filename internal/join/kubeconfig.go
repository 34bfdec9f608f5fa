// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package join

import (
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// BootstrapKubeconfig is what a kubelet takes as --bootstrap-kubeconfig: with it
// the kubelet can ask for its certificate and nothing else.
func BootstrapKubeconfig(server string, caPEM []byte, t Token) ([]byte, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("make bootstrap kubeconfig: %q is not https://HOST:PORT", server)
	}
	ca, err := normalise(caPEM)
	if err != nil {
		return nil, fmt.Errorf("make bootstrap kubeconfig: authority: %w", err)
	}
	const name = "bootstrap"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: t.Secret()}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	cfg.CurrentContext = name
	data, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("make bootstrap kubeconfig: %w", err)
	}
	return data, nil
}
