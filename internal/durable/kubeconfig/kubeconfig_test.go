// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kubeconfig_test

import (
	"encoding/json"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestUpstreamReadsIt: client-go finds everything that was written, in JSON and
// in YAML.
func TestUpstreamReadsIt(t *testing.T) {
	ca := testenv.NewAuthority(t).PEM
	const server = "https://10.89.0.1:6443"
	for _, tt := range []struct {
		name   string
		config kubeconfig.Config
	}{
		{"data", kubeconfig.ForUser("c", kubeconfig.WithCAData("cluster", server, ca), kubeconfig.User{
			Name: "user", User: kubeconfig.Credentials{Token: "token", CertificateData: []byte("cert"),
				KeyData: []byte("key")},
		})},
		{"files", kubeconfig.ForUser("c", kubeconfig.WithCA("cluster", server, "/ca"), kubeconfig.User{
			Name: "user", User: kubeconfig.Credentials{Certificate: "/cert", Key: "/key"},
		})},
	} {
		for form, marshal := range map[string]func(any) ([]byte, error){"JSON": json.Marshal, "YAML": yaml.Marshal} {
			data, err := marshal(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			got, err := clientcmd.Load(data)
			if err != nil {
				t.Fatal(err)
			}
			current := got.Contexts[got.CurrentContext]
			cluster, user := got.Clusters[current.Cluster], got.AuthInfos[current.AuthInfo]
			wantC, wantU := tt.config.Clusters[0].Cluster, tt.config.Users[0].User
			if cluster.Server != wantC.Server || cluster.CertificateAuthority != wantC.CA ||
				string(cluster.CertificateAuthorityData) != string(wantC.CAData) || cluster.InsecureSkipTLSVerify {
				t.Errorf("%s in %s: cluster %+v", tt.name, form, cluster)
			}
			if user.Token != wantU.Token || user.ClientCertificate != wantU.Certificate ||
				user.ClientKey != wantU.Key ||
				string(user.ClientCertificateData) != string(wantU.CertificateData) ||
				string(user.ClientKeyData) != string(wantU.KeyData) {
				t.Errorf("%s in %s: user %+v", tt.name, form, user)
			}
		}
	}
	data, err := json.Marshal(kubeconfig.New())
	if want := `{"apiVersion":"v1","current-context":"","kind":"Config"}`; err != nil || string(data) != want {
		t.Errorf("empty: %s, %v; want %s", data, err, want)
	}
}
