// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	list := slices.Concat(p.podFlows(t), p.serviceFlows(t), p.nodeFlows(t))
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
			if echo[to.node] != "" {
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
	balancer := "http://" + p.must(t, "get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
	for _, from := range []string{"pod", "Linux pod", "Linux node"} {
		list = append(list, p.byTCP(t, from, "load balancer", balancer))
	}
	return append(list, attempt{flow{"API server", "load balancer", "TCP"},
		func() error { return fetch(t.Context(), balancer) }})
}

// nodeFlows go from a Windows node to Services with one pod: to one of its own, and to one of another node.
func (p probes) nodeFlows(t *testing.T) (list []attempt) {
	t.Helper()
	for _, to := range []struct{ service, pod string }{{"near", "own pod"}, {"far", "other node's pod"}} {
		field := func(path string) string {
			return p.must(t, "get", "service", to.service, "-o",
				"jsonpath={"+path+"}")
		}
		ip, balancer := field(".spec.clusterIP"), field(".status.loadBalancer.ingress[0].ip")
		list = append(list,
			p.byTCP(t, "node", "Service by IP, "+to.pod, "http://"+ip),
			p.byUDP(t, "node", "Service by IP, "+to.pod, ip+":80"),
			p.byTCP(t, "node", "Service by name, "+to.pod, "http://"+to.service+".default.svc.cluster.local"))
		for _, at := range []struct{ name, node string }{{"own node", "win-1"}, {"other node", "win-2"}} {
			address := p.node(t, at.node)
			list = append(list,
				p.byTCP(t, "node", "node port of "+at.name+", "+to.pod,
					"http://"+address+":"+field(`.spec.ports[?(@.name=="tcp")].nodePort`)),
				p.byUDP(t, "node", "node port of "+at.name+", "+to.pod,
					address+":"+field(`.spec.ports[?(@.name=="udp")].nodePort`)))
		}
		list = append(list,
			p.byTCP(t, "node", "load balancer, "+to.pod, "http://"+balancer),
			p.byUDP(t, "node", "load balancer, "+to.pod, balancer+":80"))
	}
	return list
}

// outsideFlows go to what is not of the cluster's network, and come from there.
func (p probes) outsideFlows(t *testing.T, nodePort string) (list []attempt) {
	t.Helper()
	for _, from := range []string{"pod", "node", "Linux pod"} {
		list = append(list, p.byTCP(t, from, "outside by IP", "http://"+outsider))
		list = append(list, p.byUDP(t, from, "outside by IP", outsider+":5353"))
		if from != "node" {
			list = append(list, p.byTCP(t, from, "outside by name", "http://outside.default.svc.cluster.local"))
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

// tcp returns an error if a program in a pod, or in a pod that is the node itself, gets no answer by HTTP.
func (p probes) tcp(t *testing.T, from, url string) error {
	if p.linux(from) {
		return withOutput(p.kubectl(t.Context(), "exec", p.pod(from), "--", "/linuxprog", "get", url))
	}
	out, err := p.kubectl(t.Context(), "exec", p.pod(from), "--", "curl.exe", "-skS", "-o", "NUL", "-w", "%{http_code}",
		"--max-time", "4", url)
	if err == nil && strings.Trim(out, "0 \r\n") == "" {
		err = fmt.Errorf("status %q", out)
	}
	return withOutput(out, err)
}

// udp returns an error if no datagram comes back.
func (p probes) udp(t *testing.T, from, address string) error {
	program := `C:\app\winprog.exe`
	switch {
	case p.linux(from):
		program = "/linuxprog"
	case from == "node": // a HostProcess container
		program = `C:\hpc\app\winprog.exe`
	}
	return withOutput(p.kubectl(t.Context(), "exec", p.pod(from), "--", program, "udp", address))
}

func (p probes) icmp(t *testing.T, from, to string) error {
	if p.linux(from) {
		return withOutput(p.kubectl(t.Context(), "exec", p.pod(from), "--", "/linuxprog", "ping", to))
	}
	return withOutput(p.kubectl(t.Context(), "exec", p.pod(from), "--", "ping.exe", "-n", "1", "-w", "2000", to))
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
	toPod := strings.HasPrefix(f.to, "pod") || strings.HasPrefix(f.to, "Linux pod")
	switch {
	case m != agent.L2Bridge && f.from == "pod" && f.to == "outside by IP" && f.protocol == "ICMP":
		return "no OutBoundNAT for ICMP"
	case f.from == "pod" && f.to == "Service by name and namespace":
		return "names with dots are complete"
	case f.to == "Service by IP" && f.protocol == "ICMP":
		return "ICMP has no ports"
	case f.from == "node" && strings.HasSuffix(f.to, ", own pod") && !strings.HasPrefix(f.to, "node port of other"):
		return "pod on the same node"
	case m == agent.VXLAN && f.from == "node" && toPod && f.to != "pod, same node":
		return "node outside the overlay"
	case m == agent.VXLAN && f.from == "pod" && f.to == "other node" && f.protocol == "ICMP":
		return "no OutBoundNAT for ICMP"
	case m == agent.HostGateway && f.from == "outside" && toPod:
		return "only nodes have routes"
	case m == agent.VXLAN && f.from == "outside" && toPod:
		return "no route to the overlay"
	}
	return ""
}

// matrix collects what the tests of the modes find.
var matrix struct {
	sync.Mutex
	flows []flow
	modes map[agent.NetworkMode]bool
}

// check waits until all flows are as on Windows: those that fail there are refused or time out, or have a name that is
// not found. Services and the load balancer take a moment; then all are tried again, also those that were right.
func (p probes) check(t *testing.T, mode agent.NetworkMode) {
	t.Helper()
	for _, service := range []string{"web", "near", "far"} {
		p.must(t, "wait", "service/"+service, "--for=jsonpath={.status.loadBalancer.ingress}", "--timeout=60s")
	}
	flows := p.flows(t)
	eventually(t, time.Minute, "all flows as on Windows", func() error {
		results := make([]error, len(flows))
		var g errgroup.Group
		g.SetLimit(4) // most of them wait
		for i, f := range flows {
			g.Go(func() error {
				results[i] = f.judge(mode)
				return nil
			})
		}
		_ = g.Wait() // they return no errors
		return errors.Join(results...)
	})
	matrix.Lock()
	defer matrix.Unlock()
	if matrix.modes == nil {
		matrix.modes = map[agent.NetworkMode]bool{}
	}
	matrix.flows, matrix.modes[mode] = nil, true
	for _, f := range flows {
		matrix.flows = append(matrix.flows, f.flow)
	}
}

// judge tries a flow, and returns an error if it is not as on Windows.
func (a attempt) judge(mode agent.NetworkMode) error {
	why, err := asOnWindows(mode, a.flow), a.try()
	switch how := unanswered(err); {
	case why == "" && err == nil, why != "" && how != "":
		return nil
	case why == "":
		return fmt.Errorf("%s to %s, %s: %w", a.from, a.to, a.protocol, err)
	case err == nil:
		return fmt.Errorf("%s to %s, %s: it works; on Windows: %s", a.from, a.to, a.protocol, why)
	}
	return fmt.Errorf("%s to %s, %s: it was not tried: %w", a.from, a.to, a.protocol, err)
}

// checkPage compares what was found with docs/fidelity/flows.md.
func checkPage(t *testing.T) {
	t.Helper()
	matrix.Lock()
	defer matrix.Unlock()
	modes := []agent.NetworkMode{agent.L2Bridge, agent.HostGateway, agent.VXLAN}
	for _, m := range modes {
		if !matrix.modes[m] {
			return // it failed, or was not asked for
		}
	}
	var b strings.Builder
	b.WriteString(`# What reaches what

This page is the output of TestNetworkModes in test/e2e. It tries each flow between emulated hosts and a Linux worker,
with the stand-ins of curl, ping and nslookup in the pods. *Pod* and *node* are Windows pods and nodes. *Outside* is a
server behind the cluster's router, with a name in the cluster's DNS; no test leaves the machine.

A flow *fails* if it is refused, times out, or its name is not found. It fails on Windows too, for the same reason,
according to the documentation of Kubernetes and flannel ([netplane.md](netplane.md)).

The API server runs on the machine. In the overlay it reaches pods through a Linux worker only. The hosts' DNS server
resolves the cluster's names; a real node's may not.
`)
	fmt.Fprintf(&b, "\n| from | to | by |")
	for _, m := range modes {
		fmt.Fprintf(&b, " %s |", m)
	}
	fmt.Fprintf(&b, "\n|---|---|---|%s\n", strings.Repeat("---|", len(modes)))
	b.WriteString(table(matrix.flows, modes))
	testenv.Golden(t, "../../../docs/fidelity/flows.md", []byte(b.String()))
}

// table returns the rows of the page. Protocols with the same results share a row.
func table(flows []flow, modes []agent.NetworkMode) string {
	var b strings.Builder
	for len(flows) > 0 {
		f, results := flows[0], cells(flows[0], modes)
		n := 1
		for n < len(flows) && flows[n].from == f.from && flows[n].to == f.to && cells(flows[n], modes) == results {
			f.protocol += ", " + flows[n].protocol
			n++
		}
		fmt.Fprintf(&b, "| %s | %s | %s |%s\n", f.from, f.to, f.protocol, results)
		flows = flows[n:]
	}
	return b.String()
}

// cells returns the results of a flow, by mode.
func cells(f flow, modes []agent.NetworkMode) string {
	var b strings.Builder
	for _, m := range modes {
		if why := asOnWindows(m, f); why != "" {
			fmt.Fprintf(&b, " fails: %s |", why)
		} else {
			b.WriteString(" works |")
		}
	}
	return b.String()
}
