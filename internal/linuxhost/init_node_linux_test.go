// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
)

// newTestFollower returns a follower whose host's files lie in a directory, and what it announced last.
func newTestFollower(t *testing.T, mode agent.NetworkMode) (*follower, *[]netip.Prefix) {
	t.Helper()
	var announced []netip.Prefix
	c := testConfig(t.TempDir())
	c.Network = mode
	f := newFollower(boot{Config: c}, func(own, _ []netip.Prefix) { announced = own })
	f.root = t.TempDir()
	for _, file := range []string{cniConfFile, flannelSubnetFile} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(f.root, file)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return f, &announced
}

func testNode(uid, podCIDR string) nodeapi.Node {
	return nodeapi.Node{UID: uid, PodCIDR: netip.MustParsePrefix(podCIDR)}
}

// TestANodeThatJoinsAgain: pods get addresses of the range that the node has now. While the node is
// away, nothing changes.
func TestANodeThatJoinsAgain(t *testing.T) {
	f, announced := newTestFollower(t, agent.L2Bridge)
	check := func(n nodeapi.Node, want string) {
		t.Helper()
		if err := f.follow(n); (err == nil) != n.PodCIDR.IsValid() {
			t.Errorf("%v: %v", n, err)
		}
		conf, err := os.ReadFile(filepath.Join(f.root, cniConfFile))
		if err != nil || !strings.Contains(string(conf), `"subnet": "`+want+`"`) {
			t.Errorf("%v: configuration %s, %v", n, conf, err)
		}
		if got := *announced; len(got) != 1 || got[0].String() != want {
			t.Errorf("%v: announced %v", n, got)
		}
	}
	check(testNode("a", "10.244.3.0/24"), "10.244.3.0/24")
	check(nodeapi.Node{}, "10.244.3.0/24")
	check(testNode("b", "10.244.9.0/24"), "10.244.9.0/24")
}

// TestFlannelFollowsTheNode: the CNI configuration waits for flanneld, which starts again when the
// node is another one.
func TestFlannelFollowsTheNode(t *testing.T) {
	f, announced := newTestFollower(t, agent.HostGateway)
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- f.keepFlannel(func(ctx context.Context) error {
			started <- struct{}{}
			<-ctx.Done()
			return errors.New("stopped")
		})(ctx)
	}()
	if err := f.follow(testNode("a", "10.244.3.0/24")); err == nil || *announced != nil {
		t.Errorf("flanneld has written nothing: %v, announced %v", err, *announced)
	}
	<-started
	env := []byte("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\n")
	if err := os.WriteFile(filepath.Join(f.root, flannelSubnetFile), env, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.follow(testNode("a", "10.244.3.0/24")); err != nil || len(*announced) != 1 {
		t.Errorf("flanneld is ready: %v, announced %v", err, *announced)
	}
	if err := f.follow(testNode("b", "10.244.3.0/24")); err != nil {
		t.Error(err)
	}
	<-started
	cancel()
	if err := <-ended; err == nil || err.Error() != "stopped" {
		t.Errorf("flanneld ended with %v", err)
	}
}

// TestAdmitted: a host that has joined sends no request, because its control plane may be away.
func TestAdmitted(t *testing.T) {
	certificate := filepath.Join(t.TempDir(), "kubelet.pem")
	b := boot{Config: testConfig(t.TempDir()), Boot: host.Boot{Token: "abcdef.0123456789abcdef"}}
	b.Config.Server = "https://127.0.0.1:1"
	if err := admitted(t.Context(), b, certificate); err == nil {
		t.Error("admitted without a server")
	}
	if err := os.WriteFile(certificate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := admitted(t.Context(), b, certificate); err != nil {
		t.Errorf("joined before: %v", err)
	}
}
