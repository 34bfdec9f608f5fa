// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/testenv/kubeapitest"
)

// testKubeProxy runs the unmodified kube-proxy.exe: a service comes, changes and
// goes, and the load balancers follow.
func testKubeProxy(t *testing.T, p *prefixed) {
	exe := testenv.Bin("windows", "kube-proxy.exe")
	if _, err := os.Stat(exe); err != nil {
		testenv.Need(t, testenv.Built)
		t.Fatal(err)
	}
	for name, v := range map[string]schema.Version{"2019": emul.VersionOf(17763), "2025": emul.VersionOf(26100)} {
		t.Run(name, func(t *testing.T) { kubeProxy(t, p, exe, v) })
	}
}

// startKubeProxy runs kube-proxy.exe with the API server at a URL and the HNS
// server that serve returned. The channel is closed when it ends.
func startKubeProxy(t *testing.T, p *prefixed, exe, api, hns string) <-chan struct{} {
	t.Helper()
	config := filepath.Join(p.dir, "drive_c", "kubeconfig-"+filepath.Base(t.TempDir()))
	if err := os.WriteFile(config, kubeapitest.Kubeconfig(api), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := p.command(t.Context(), hns, exe, "--proxy-mode=kernelspace", `--kubeconfig=C:\`+
		filepath.Base(config), "--hostname-override=win-1",
		"--network-name=cbr0", "--bind-address=10.89.0.11", "--cluster-cidr=198.18.0.0/16",
		"--healthz-bind-address="+freeAddress(t), "--metrics-bind-address="+freeAddress(t), "-v=2")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // killed in the end
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() || strings.Contains(out.String(), "panic") {
			t.Errorf("%s", tail(out.Bytes()))
		}
	})
	return ended
}

func kubeProxy(t *testing.T, p *prefixed, exe string, v schema.Version) {
	api := kubeapitest.New()
	endpoints := func(nodes map[string]string) {
		api.Set(t, kubeapitest.Slices, "web", kubeapitest.Slice("web", 8080, nodes))
	}
	api.Set(t, kubeapitest.Nodes, "win-1", kubeapitest.Node("win-1", "10.89.0.11"))
	endpoints(map[string]string{"198.18.1.5": "win-1", "192.0.2.7": "win-2"})
	api.Set(t, kubeapitest.Services, "web", kubeapitest.Service("web", "198.18.9.10", 80, 8080, 30080))
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	s := open(t, v)
	c := &client{T: t, api: s}
	n := c.create(hns.Network, schema.GUID{}, `{"Name":"cbr0","Type":"L2Bridge","SchemaVersion":{"Major":2,"Minor":0},
		"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"198.18.1.0/24",
		  "Routes":[{"NextHop":"198.18.1.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`)
	local := c.endpoint(n, "198.18.1.5", 0)
	// Left over from an earlier life: kube-proxy removes all when it starts.
	c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.9.99", 80, local))
	ended := startKubeProxy(t, p, exe, server.URL, serve(t, s))
	ids := func() map[string]string { // front end to id, with the number of endpoints
		found := map[string]string{}
		for _, id := range c.enumerate(hns.LoadBalancer, "") {
			var lb schema.LoadBalancer
			c.query(hns.LoadBalancer, c.parse(id), &lb)
			found[fmt.Sprintf("%v %d to %d", lb.FrontendVIPs, lb.PortMappings[0].ExternalPort,
				len(lb.HostComputeEndpoints))] = id
		}
		return found
	}
	wait := func(what string, want ...string) (found map[string]string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			found = ids()
			if len(found) == len(want) && !slices.ContainsFunc(want, func(w string) bool { return found[w] == "" }) {
				return found
			}
			select {
			case <-ended:
				t.Fatalf("%s: kube-proxy ended", what)
			case <-time.After(50 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: load balancers %v, want %v", what, found, want)
			}
		}
	}
	before := wait("at first", "[198.18.9.10] 80 to 2", "[] 30080 to 2")
	endpoints(map[string]string{"198.18.1.5": "win-1", "192.0.2.7": "win-2", "192.0.2.8": "win-2"})
	after := wait("one endpoint more", "[198.18.9.10] 80 to 3", "[] 30080 to 3")
	if same := before["[198.18.9.10] 80 to 2"] == after["[198.18.9.10] 80 to 3"]; same != v.AtLeast(15, 5) {
		t.Errorf("load balancer changed in place: %v, in HNS %d.%d", same, v.Major, v.Minor)
	}
	api.Set(t, kubeapitest.Services, "web", nil)
	wait("service deleted")
	// Its own remote endpoints go with it, the pod's stays.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if left := c.enumerate(hns.Endpoint, ""); slices.Equal(left, []string{local.String()}) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("endpoints %v, want the pod's only", left)
		}
	}
}

// freeAddress returns an address without a listener. kube-proxy does not accept
// port 0.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
