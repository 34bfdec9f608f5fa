// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
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
	outside    string // the network namespace of the server outside of the cluster
}

// attempt is a flow with how to try it.
type attempt struct {
	flow
	try func() error
}

// must returns the output of a kubectl command.
func (p probes) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(out)
}

// addresses returns the addresses of pods with a label, by node.
func (p probes) addresses(t *testing.T, label string) map[string]string {
	t.Helper()
	pods := map[string]string{}
	for f := range strings.FieldsSeq(p.must(t, "get", "pods", "-l", label, "-o",
		`jsonpath={range .items[*]}{.spec.nodeName}={.status.podIP} {end}`)) {
		node, ip, _ := strings.Cut(f, "=")
		pods[node] = ip
	}
	return pods
}

func (p probes) node(t *testing.T, name string) string {
	t.Helper()
	return p.must(t, "get", "node", name, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
}

func (p probes) byTCP(t *testing.T, from, to, url string) attempt {
	return attempt{flow{from, to, "TCP"}, func() error { return p.tcp(t, from, url) }}
}

func (p probes) byUDP(t *testing.T, from, to, address string) attempt {
	return attempt{flow{from, to, "UDP"}, func() error { return p.udp(t, from, address) }}
}

func (p probes) byICMP(t *testing.T, from, to, address string) attempt {
	return attempt{flow{from, to, "ICMP"}, func() error { return p.icmp(t, from, address) }}
}

// flows lists the flows of the guides in the order of the page.
func (p probes) flows(t *testing.T) []attempt {
	t.Helper()
	nodePort := p.must(t, "get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	list := append(p.podFlows(t), p.serviceFlows(t)...)
	for _, to := range []struct{ name, node string }{{"own node", "win-1"}, {"other node", "win-2"}} {
		address := p.node(t, to.node)
		list = append(list,
			p.byTCP(t, "pod", to.name, "https://"+address+":10250/healthz"),
			p.byICMP(t, "pod", to.name, address),
			p.byTCP(t, "pod", "node port of "+to.name, "http://"+address+":"+nodePort))
	}
	return append(list, p.outsideFlows(t, nodePort)...)
}

// podFlows go from pods and nodes to pods.
func (p probes) podFlows(t *testing.T) (list []attempt) {
	t.Helper()
	pod, echo := p.addresses(t, "app in (web, linux)"), p.addresses(t, "app in (echo, linux)")
	for _, from := range []string{"pod", "node"} {
		for _, to := range []struct{ name, node string }{
			{"pod, same node", "win-1"}, {"pod, other node", "win-2"}, {"pod, other build", p.otherBuild},
			{"Linux pod", "linux-1"},
		} {
			list = append(list, p.byTCP(t, from, to.name, "http://"+pod[to.node]))
			if from == "pod" && echo[to.node] != "" {
				list = append(list, p.byUDP(t, from, to.name, echo[to.node]+":5353"))
			}
			list = append(list, p.byICMP(t, from, to.name, pod[to.node]))
		}
	}
	for _, from := range []string{"Linux pod", "Linux node"} {
		list = append(list,
			p.byTCP(t, from, "pod", "http://"+pod["win-1"]),
			p.byUDP(t, from, "pod", echo["win-1"]+":5353"),
			p.byICMP(t, from, "pod", pod["win-1"]))
	}
	return list
}

// serviceFlows go from pods to Services.
func (p probes) serviceFlows(t *testing.T) []attempt {
	t.Helper()
	service := p.must(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	fqdn := "web." + p.must(t, "get", "service", "web", "-o", "jsonpath={.metadata.namespace}") + ".svc.cluster.local"
	dns := p.must(t, "get", "service", "-n", "kube-system", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
	list := []attempt{
		p.byTCP(t, "pod", "Service by IP", "http://"+service),
		{flow{"pod", "Service by IP", "UDP"}, func() error {
			_, err := p.kubectl(t.Context(), "exec", "client", "--", "nslookup.exe", fqdn, dns)
			return err
		}},
		p.byICMP(t, "pod", "Service by IP", service),
		p.byTCP(t, "pod", "Service of Linux pods", "http://linux"),
		p.byTCP(t, "Linux pod", "Service by IP", "http://"+service),
		p.byTCP(t, "Linux node", "Service by IP", "http://"+service),
	}
	for _, from := range []string{"pod", "Linux pod"} {
		list = append(list,
			p.byTCP(t, from, "Service by name", "http://web"),
			p.byTCP(t, from, "Service by name and namespace", "http://web.default"),
			p.byTCP(t, from, "Service by FQDN", "http://"+fqdn))
	}
	// A program of a Windows node does not reach the node's own pods by a Service, and which pod answers is a draw.
	balancer := "http://" + p.must(t, "get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
	for _, from := range []string{"pod", "Linux pod", "Linux node"} {
		list = append(list, p.byTCP(t, from, "load balancer", balancer))
	}
	return append(list, attempt{flow{"API server", "load balancer", "TCP"},
		func() error { return fetch(t.Context(), balancer) }})
}

// outsideFlows go to what is not of the cluster's network, and come from there.
func (p probes) outsideFlows(t *testing.T, nodePort string) (list []attempt) {
	t.Helper()
	for _, from := range []string{"pod", "node", "Linux pod"} {
		list = append(list, p.byTCP(t, from, "outside by IP", "http://"+outsider))
		if from != "node" {
			list = append(list,
				p.byUDP(t, from, "outside by IP", outsider+":5353"),
				p.byTCP(t, from, "outside by name", "http://outside.default.svc.cluster.local"))
		}
		list = append(list, p.byICMP(t, from, "outside by IP", outsider))
	}
	list = append(list, p.byTCP(t, "pod", "API server", "https://"+p.api+"/version"))
	pod := p.addresses(t, "app in (web, linux)")
	for _, to := range []struct{ name, url string }{
		{"node port", "http://" + p.node(t, "win-2") + ":" + nodePort}, {"pod", "http://" + pod["win-1"]},
		{"Linux pod", "http://" + pod["linux-1"]},
	} {
		list = append(list,
			attempt{flow{"outside", to.name, "TCP"}, func() error { return fetchFrom(t, p.outside, to.url) }},
			attempt{flow{"API server", to.name, "TCP"}, func() error { return fetch(t.Context(), to.url) }})
	}
	return list
}

// tcp reports whether a program in a pod, or in a pod that is the node itself, gets an answer by HTTP.
func (p probes) tcp(t *testing.T, from, url string) error {
	if p.linux(from) {
		_, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", "/linuxprog", "get", url)
		return err
	}
	out, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", "curl.exe", "-sk", "-o", "NUL", "-w", "%{http_code}",
		"--max-time", "4", url)
	if err == nil && strings.Trim(out, "0 \r\n") == "" {
		err = fmt.Errorf("status %q", out)
	}
	return err
}

// udp reports whether a datagram comes back.
func (p probes) udp(t *testing.T, from, address string) error {
	program := `C:\app\winprog.exe`
	if p.linux(from) {
		program = "/linuxprog"
	}
	_, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", program, "udp", address)
	return err
}

func (p probes) icmp(t *testing.T, from, to string) error {
	if p.linux(from) {
		_, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", "/linuxprog", "ping", to)
		return err
	}
	_, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", "ping.exe", "-n", "1", "-w", "2000", to)
	return err
}

// linux reports whether a client has the programs of a Linux image.
func (probes) linux(from string) bool { return strings.HasPrefix(from, "Linux") }

func (probes) pod(from string) string {
	return map[string]string{"pod": "client", "node": "node", "Linux pod": "linux", "Linux node": "linux-node"}[from]
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
	case m != agent.L2Bridge && f.from == "pod" && f.to == "outside by IP" && f.protocol == "ICMP":
		return "OutBoundNAT is for TCP and UDP"
	case f.from == "pod" && f.to == "Service by name and namespace":
		return "a name with a dot is complete"
	case f.to == "Service by IP" && f.protocol == "ICMP":
		return "a load balancer has ports only"
	case m == agent.VXLAN && f.from == "node" && f.to != "pod, same node" && f.to != "outside by IP":
		return "a node is not in the overlay"
	case m == agent.VXLAN && f.from == "pod" && f.to == "other node" && f.protocol == "ICMP":
		return "OutBoundNAT is for TCP and UDP"
	case m == agent.HostGateway && f.from == "outside" && strings.HasSuffix(f.to, "pod"):
		return "only nodes have routes to pods"
	case m == agent.VXLAN && f.from == "outside" && strings.HasSuffix(f.to, "pod"):
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

This page is the output of TestNetworks in test/e2e: every line was tried between emulated hosts and a Linux worker,
with the stand-ins of curl, ping and nslookup in the pods. *Pod* and *node* are Windows', unless they are called Linux.
*fails, as on Windows* gives the reason; the sources are Kubernetes' and flannel's documentation
([netplane.md](netplane.md)). *Outside* is a server behind the cluster's router, which has a name in the cluster's DNS;
no test leaves the machine. The API server runs on the machine; in the overlay it reaches pods through a Linux
worker, and without one it does not.
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
	testenv.Golden(t, "../../../docs/fidelity/flows.md", []byte(b.String()))
}
