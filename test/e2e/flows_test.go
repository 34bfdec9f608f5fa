// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// flow is one line of docs/fidelity/flows.md.
type flow struct{ from, to, protocol string }

// probes tries all flows of one cluster. The pods are those of flowsYAML.
type probes struct {
	kubectl    func(ctx context.Context, args ...string) (string, error)
	otherBuild string // the node of another build
	api        string // HOST:PORT of the API server, which is outside of the pods' network
}

// flows lists the flows of the guides in the order of the page, with how to try each.
func (p probes) flows(t *testing.T) []struct {
	flow
	try func() error
} {
	t.Helper()
	must := func(args ...string) string {
		t.Helper()
		out, err := p.kubectl(t.Context(), args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(out)
	}
	pod := map[string]string{}
	for f := range strings.FieldsSeq(must("get", "pods", "-l", "app=web", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName}={.status.podIP} {end}`)) {
		node, ip, _ := strings.Cut(f, "=")
		pod[node] = ip
	}
	node := func(name string) string {
		return must("get", "node", name, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	}
	service := must("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	nodePort := must("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	fqdn := "web." + must("get", "service", "web", "-o", "jsonpath={.metadata.namespace}") + ".svc.cluster.local"
	dns := must("get", "service", "-n", "kube-system", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
	outside, _, _ := net.SplitHostPort(p.api)

	var list []struct {
		flow
		try func() error
	}
	add := func(from, to, protocol string, try func() error) {
		list = append(list, struct {
			flow
			try func() error
		}{flow{from, to, protocol}, try})
	}
	tcp := func(from, to, url string) { add(from, to, "TCP", func() error { return p.tcp(t, from, url) }) }
	icmp := func(from, to, address string) {
		add(from, to, "ICMP", func() error { return p.icmp(t, from, address) })
	}
	for _, from := range []string{"pod", "node"} {
		for _, to := range []struct{ name, node string }{
			{"pod, same node", "win-1"}, {"pod, other node", "win-2"}, {"pod, other build", p.otherBuild},
		} {
			tcp(from, to.name, "http://"+pod[to.node])
			icmp(from, to.name, pod[to.node])
		}
	}
	tcp("pod", "Service by IP", "http://"+service)
	add("pod", "Service by IP", "UDP", func() error {
		_, err := p.kubectl(t.Context(), "exec", "client", "--", "nslookup.exe", fqdn, dns)
		return err
	})
	icmp("pod", "Service by IP", service)
	tcp("pod", "Service by name", "http://web")
	tcp("pod", "Service by FQDN", "http://"+fqdn)
	for _, to := range []struct{ name, node string }{{"own node", "win-1"}, {"other node", "win-2"}} {
		tcp("pod", to.name, "https://"+node(to.node)+":10250/healthz")
		icmp("pod", to.name, node(to.node))
		tcp("pod", "node port of "+to.name, "http://"+node(to.node)+":"+nodePort)
	}
	tcp("pod", "outside by IP", "https://"+p.api+"/version")
	icmp("pod", "outside by IP", outside)
	tcp("node", "outside by IP", "https://"+p.api+"/version")
	for _, to := range []struct{ name, url string }{
		{"node port", "http://" + node("win-2") + ":" + nodePort}, {"pod", "http://" + pod["win-1"]},
	} {
		add("outside", to.name, "TCP", func() error { return fetch(t.Context(), to.url) })
	}
	return list
}

// tcp reports whether a program in a pod, or in a pod that is the node itself, gets an answer by HTTP.
func (p probes) tcp(t *testing.T, from, url string) error {
	out, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", "curl.exe", "-sk", "-o", "NUL", "-w", "%{http_code}",
		"--max-time", "4", url)
	if err == nil && strings.Trim(out, "0 \r\n") == "" {
		err = fmt.Errorf("status %q", out)
	}
	return err
}

func (p probes) icmp(t *testing.T, from, to string) error {
	_, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", "ping.exe", "-n", "1", "-w", "2000", to)
	return err
}

func (probes) pod(from string) string {
	return map[string]string{"pod": "client", "node": "node"}[from]
}

// fetch asks from the machine.
func fetch(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// asOnWindows lists the flows that fail, with the reason, by mode; "" stands for all.
func asOnWindows(m agent.NetworkMode, f flow) string {
	switch {
	case f.from == "pod" && f.to == "outside by IP" && f.protocol == "ICMP":
		return "OutBoundNAT is for TCP and UDP"
	case f.to == "Service by IP" && f.protocol == "ICMP":
		return "a load balancer has ports only"
	case m == agent.VXLAN && f.from == "node" && (f.to == "pod, other node" || f.to == "pod, other build"):
		return "a node is not in the overlay"
	case m == agent.VXLAN && f.from == "pod" && f.to == "other node" && f.protocol == "ICMP":
		return "OutBoundNAT is for TCP and UDP"
	case m == agent.VXLAN && f.from == "outside" && f.to == "pod":
		return "the overlay's addresses mean nothing outside"
	}
	return ""
}

// matrix collects what the tests of the modes find.
var matrix struct {
	sync.Mutex
	flows   []flow
	results map[agent.NetworkMode]map[flow]bool
}

// check tries all flows; one that fails must fail on Windows, too.
func (p probes) check(t *testing.T, mode agent.NetworkMode) {
	t.Helper()
	// kube-proxy is at work when it has made the last Service.
	eventually(t, time.Minute, "Service", func() error { return p.tcp(t, "pod", "http://web") })
	found, order := map[flow]bool{}, []flow(nil)
	var g errgroup.Group
	g.SetLimit(4) // most of them wait
	for _, f := range p.flows(t) {
		order = append(order, f.flow)
		g.Go(func() error {
			why := asOnWindows(mode, f.flow)
			err := f.try()
			for range 3 { // a busy machine
				if err == nil || why != "" {
					break
				}
				err = f.try()
			}
			if err == nil != (why == "") {
				t.Errorf("%s to %s, %s: %v; on Windows: %s", f.from, f.to, f.protocol, err, why)
			}
			matrix.Lock()
			defer matrix.Unlock()
			found[f.flow] = err == nil
			return nil
		})
	}
	_ = g.Wait() // they return no errors
	matrix.Lock()
	defer matrix.Unlock()
	if matrix.results == nil {
		matrix.results = map[agent.NetworkMode]map[flow]bool{}
	}
	matrix.flows, matrix.results[mode] = order, found
}

// checkPage compares what was found with docs/fidelity/flows.md.
func checkPage(t *testing.T) {
	t.Helper()
	matrix.Lock()
	defer matrix.Unlock()
	modes := []agent.NetworkMode{agent.L2Bridge, agent.HostGateway, agent.VXLAN}
	for _, m := range modes {
		if matrix.results[m] == nil {
			return // it failed, or was not asked for
		}
	}
	var b strings.Builder
	b.WriteString(`# What reaches what

This page is the output of TestNetworks in test/e2e: every line was tried between emulated hosts, with the stand-ins of
curl, ping and nslookup in the pods. *fails, as on Windows* gives the reason; the sources are Kubernetes' and flannel's
documentation ([netplane.md](netplane.md)). *Outside* is the machine with the API server; no test leaves the machine.
`)
	fmt.Fprintf(&b, "\n| from | to | by |")
	for _, m := range modes {
		fmt.Fprintf(&b, " %s |", m)
	}
	fmt.Fprintf(&b, "\n|---|---|---|%s\n", strings.Repeat("---|", len(modes)))
	for _, f := range matrix.flows {
		fmt.Fprintf(&b, "| %s | %s | %s |", f.from, f.to, f.protocol)
		for _, m := range modes {
			if matrix.results[m][f] {
				fmt.Fprintf(&b, " works |")
			} else {
				fmt.Fprintf(&b, " fails, as on Windows: %s |", asOnWindows(m, f))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString(`
Not in the table: names of hosts outside of the cluster, UDP between pods (tests of ` + "`internal/netplane/netlab`" + `
send it), and Linux nodes.
`)
	testenv.Golden(t, "../../../docs/fidelity/flows.md", []byte(b.String()))
}
