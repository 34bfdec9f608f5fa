// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestResolver(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config *runtime.DNSConfig
		want   string
	}{
		{"nothing", nil, ""},
		{
			"what the kubelet sends for ClusterFirst",
			&runtime.DNSConfig{
				Servers:  []string{"10.96.0.10"},
				Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"},
				Options:  []string{"ndots:5"},
			},
			"search shop.svc.cluster.local\nnameserver 10.96.0.10\n" + resolverOptions,
		},
		{
			"what the kubelet sends for Default",
			&runtime.DNSConfig{Servers: []string{"127.0.0.1"}, Searches: []string{"."}},
			"nameserver 127.0.0.1\n" + resolverOptions,
		},
		{
			"servers only",
			&runtime.DNSConfig{Servers: []string{"192.0.2.1", "192.0.2.2"}, Options: []string{"timeout:1"}},
			"nameserver 192.0.2.1\nnameserver 192.0.2.2\n" + resolverOptions,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := resolver(tt.config); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
