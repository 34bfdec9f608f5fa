// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/testenv/kubeapitest"
)

// measureProxy measures upstream's kube-proxy in nftables mode, by its own metrics: the synchronisations of all
// Services, and of one more.
func measureProxy(b *testing.B, m measures, netns string, n int) {
	b.Helper()
	netlab.Namespace(b, netns)
	netlab.Run(b, netns, "ip address add 10.89.0.11/32 dev lo", "ip link set lo up")
	api := kubeapitest.New()
	api.Set(b, kubeapitest.Nodes, "n", kubeapitest.Node("n", "10.89.0.11"))
	set := func(i int) {
		lb := intenttest.Service(i, 2)
		name := fmt.Sprintf("svc-%d", i)
		nodes := map[string]string{}
		for _, backend := range lb.Backends {
			nodes[backend.Address.String()] = ""
		}
		api.Set(b, kubeapitest.Slices, name, kubeapitest.Slice(name, int(lb.InternalPort), nodes))
		api.Set(b, kubeapitest.Services, name, kubeapitest.Service(name, lb.VIPs[0].String(), int(lb.ExternalPort),
			int(lb.InternalPort), 0))
	}
	for i := range n {
		set(i)
	}
	metrics := startProxy(b, netns, api)
	m.add("proxy-all", metrics.next(b))
	set(n)
	m.add("proxy-one-more", metrics.next(b))
}

// proxyMetrics are the metrics of a running kube-proxy.
type proxyMetrics struct {
	client http.Client
	output *testenv.Buffer
	last   syncs // when next returned
}

// syncs are the synchronisations since the start, and the seconds that they took.
type syncs struct{ count, sum float64 }

// startProxy starts kube-proxy, and the API server, in a network namespace. Both end with the benchmark.
func startProxy(b *testing.B, netns string, api http.Handler) *proxyMetrics {
	b.Helper()
	var l net.Listener
	p := &proxyMetrics{output: &testenv.Buffer{}}
	p.client.Transport = &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = kernel.Do(netns, func() (err error) {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		}}
	config := filepath.Join(b.TempDir(), "kubeconfig")
	cmd := exec.Command(testenv.Bin("linux", "kube-proxy"), "--proxy-mode=nftables", "--kubeconfig="+config,
		"--hostname-override=n", "--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0", "--conntrack-min=0",
		"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
	cmd.Stdout, cmd.Stderr = p.output, p.output
	err := kernel.Do(netns, func() (err error) {
		if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			return err
		}
		if err := os.WriteFile(config, kubeapitest.Kubeconfig("http://"+l.Addr().String()), 0o600); err != nil {
			return err
		}
		return cmd.Start()
	})
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: api, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = server.Close()
	})
	return p
}

// next waits until kube-proxy has synchronised again, and no longer does, and returns how long one synchronisation took
// it. It synchronises once a second at most; a Service that comes with its endpoints is often two.
func (p *proxyMetrics) next(b *testing.B) time.Duration {
	b.Helper()
	before, last := p.last, p.last
	quiet := 0
	for deadline := time.Now().Add(3 * time.Minute); quiet < 3; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			b.Fatalf("kube-proxy does not come to rest\n%s", p.output)
		}
		now, err := p.read(b.Context())
		switch {
		case err != nil: // it starts
		case now.count > last.count:
			last, quiet = now, 0
		case now.count > before.count:
			quiet++
		}
	}
	p.last = last
	seconds := (last.sum - before.sum) / (last.count - before.count)
	return time.Duration(seconds * float64(time.Second))
}

// read returns kube-proxy's own measure, for IPv4.
func (p *proxyMetrics) read(ctx context.Context) (now syncs, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:10249/metrics", nil)
	if err != nil {
		return now, err
	}
	r, err := p.client.Do(q)
	if err != nil {
		return now, err
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		const name = "kubeproxy_sync_proxy_rules_duration_seconds"
		metric, value, _ := strings.Cut(lines.Text(), `{ip_family="IPv4"} `)
		switch metric {
		case name + "_count":
			now.count, err = strconv.ParseFloat(value, 64)
		case name + "_sum":
			now.sum, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return now, err
		}
	}
	return now, lines.Err()
}
