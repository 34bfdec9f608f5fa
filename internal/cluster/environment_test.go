// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"slices"
	"testing"
)

func TestServerEnvironment(t *testing.T) {
	got := serverEnvironment([]string{
		"PATH=/usr/bin", "AWS_SECRET_ACCESS_KEY=x", "https_proxy=http://p", "HOME=/root", "MULLION_DATA=/d",
		"SSH_AUTH_SOCK=/s",
		"GOMAXPROCS=2", "ETCD_NAME=n", "KUBECONFIG=/k", "NOTIFY_SOCKET=/n", "LD_PRELOAD=/l", "BASH_FUNC_x%%=() { :; }",
	})
	want := []string{"PATH=/usr/bin", "https_proxy=http://p", "MULLION_DATA=/d", "GOMAXPROCS=2"}
	if !slices.Equal(got, want) {
		t.Errorf("kept %q; want %q", got, want)
	}
}
