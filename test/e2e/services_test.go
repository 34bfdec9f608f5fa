// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answersYAML has a server on each of the two hosts of the guide's build, which tells its clients' addresses, and
// a Service for each setting. "one" is on the first host only.
const answersYAML = `
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: answers, only: one}}
spec:
  nodeName: win-1
  terminationGracePeriodSeconds: 60
  containers: [{CONTAINER, lifecycle: {preStop: {sleep: {seconds: 45}}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: answers}}
spec: {nodeName: win-2, containers: [{CONTAINER}]}
---
apiVersion: v1
kind: Pod
metadata: {name: newer}
spec:
  nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}
  containers:
  - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022", command: [ping, -n, "600", 127.0.0.1]}
---
apiVersion: v1
kind: Service
metadata: {name: named}
spec: {selector: {app: answers}, ports: [{port: 80, targetPort: web}]}
---
apiVersion: v1
kind: Service
metadata: {name: sticky}
spec:
  selector: {app: answers}
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: inside}
spec: {selector: {only: one}, internalTrafficPolicy: Local, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: external}
spec: {selector: {app: answers}, externalIPs: [192.0.2.10], ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: local}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {only: one}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: preserved, annotations: {preserve-destination: "true"}}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {only: one}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: single}
spec: {type: NodePort, selector: {only: one}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: spread}
spec:
  type: LoadBalancer
  selector: {app: answers}
  ports:
  - {name: tcp, port: 80, targetPort: 8080}
  - {name: udp, port: 80, targetPort: 8080, protocol: UDP}
---
apiVersion: v1
kind: Service
metadata: {name: classed}
spec: {type: LoadBalancer, loadBalancerClass: example.com/other, selector: {app: answers}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: foreign}
spec: {type: LoadBalancer, loadBalancerIP: 192.0.2.7, selector: {app: answers}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: sctp}
spec: {type: LoadBalancer, selector: {app: answers}, ports: [{port: 80, protocol: SCTP}]}
`

// services is a namespace with answersYAML.
type services struct {
	*shared
	ns string
}

// TestServices has a case for each setting of a Service that kube-proxy.exe and the load balancer know, beside the
// names and variables of TestServiceKinds.
func TestServices(t *testing.T) {
	t.Parallel()
	c := up(t, "2022")
	c.withWinprog(t)
	s := services{c, c.namespace(t)}
	c.apply(t, s.ns, strings.ReplaceAll(answersYAML, "CONTAINER", `name: main, image: "`+winprogImage+
		`", args: [answer, ":8080"], ports: [{name: web, containerPort: 8080}], `+
		`readinessProbe: {httpGet: {port: 8080}}`))
	c.ready(t, s.ns, "one", "two", "newer")
	for _, tc := range []struct {
		name string
		test func(t *testing.T, s services)
	}{
		{"named target port", testNamedPort},
		{"session affinity", testAffinity},
		{"internalTrafficPolicy Local", testInternalLocal},
		{"externalIPs", testExternalIPs},
		{"externalTrafficPolicy Cluster", testCluster},
		{"externalTrafficPolicy Local", testLocal},
		{"preserve-destination", testPreserved},
		{"node ports", testNodePorts},
		{"UDP", testDatagrams},
		{"reasons", testReasons},
		{"loadBalancerSourceRanges", testSourceRanges},
		{"endpoints that terminate", testTerminating},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, s) })
	}
}

// field reads a field of an object.
func (s services) field(t *testing.T, object, path string) string {
	t.Helper()
	return s.kubectl(t, "get", "-n", s.ns, object, "-o", "jsonpath={"+path+"}")
}

// ask asks from a pod, and returns who answered and whom it saw.
func (s services) ask(ctx context.Context, pod, url string) (server, client string, err error) {
	out, err := s.execErr(ctx, s.ns, pod, "curl.exe", "-s", "-S", "--max-time", "5", url)
	if err != nil {
		return "", "", err
	}
	return parseAnswer(out)
}

// askHere asks from the machine, over a connection of its own.
func askHere(url string) (server, client string, err error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return "", "", err
	}
	return parseAnswer(string(out))
}

func parseAnswer(out string) (server, client string, err error) {
	server, client, ok := strings.Cut(strings.TrimSpace(out), ", asked by ")
	if !ok {
		return "", "", fmt.Errorf("answer %q", out)
	}
	return strings.ToLower(server), client, nil
}

// address waits for the address of a load balancer.
func (s services) address(t *testing.T, service string) string {
	t.Helper()
	var ip string
	eventually(t, 20*time.Second, service, func() error {
		if ip = s.field(t, "service/"+service, ".status.loadBalancer.ingress[0].ip"); ip == "" {
			return errors.New("no address")
		}
		return nil
	})
	return ip
}

// both asks until both servers have answered, and returns whom they saw.
func both(t *testing.T, ask func() (server, client string, err error)) map[string]string {
	t.Helper()
	seen := map[string]string{}
	eventually(t, 30*time.Second, "both servers", func() error {
		for range 16 {
			server, client, err := ask()
			if err != nil {
				return err
			}
			if seen[server] = client; len(seen) == 2 {
				return nil
			}
		}
		return fmt.Errorf("only %v answered", seen)
	})
	return seen
}

func testNamedPort(t *testing.T, s services) {
	own := s.get(t, s.ns, "one", "{.status.podIP}")
	seen := both(t, func() (string, string, error) { return s.ask(t.Context(), "one", "http://named") })
	if got := seen["two"]; got != own {
		t.Errorf("with DSR, the server saw %s, want the pod's address %s", got, own)
	}
}

// testAffinity: Windows Server 2022 has session affinity, 2019 has not. No build ends it after the timeout.
func testAffinity(t *testing.T, s services) {
	var first string
	eventually(t, 20*time.Second, "sticky", func() (err error) {
		first, _, err = s.ask(t.Context(), "newer", "http://sticky")
		return err
	})
	for range 8 {
		if got, _, err := s.ask(t.Context(), "newer", "http://sticky"); err != nil || got != first {
			t.Fatalf("%s answered after %s, %v", got, first, err)
		}
		time.Sleep(1100 * time.Millisecond) // the timeout
	}
	both(t, func() (string, string, error) { return s.ask(t.Context(), "one", "http://sticky") })
}

func testInternalLocal(t *testing.T, s services) {
	eventually(t, 20*time.Second, "on the same node", func() error {
		_, _, err := s.ask(t.Context(), "one", "http://inside")
		return err
	})
	_, _, err := s.ask(t.Context(), "two", "http://inside")
	denied(t, "from a node without a server", err)
}

func testExternalIPs(t *testing.T, s services) {
	both(t, func() (string, string, error) { return s.ask(t.Context(), "one", "http://192.0.2.10") })
}

func testCluster(t *testing.T, s services) {
	ip := s.address(t, "spread")
	nodes := s.nodes(t)
	for server, client := range both(t, func() (string, string, error) { return askHere("http://" + ip) }) {
		if !strings.Contains(nodes, " "+client+" ") {
			t.Errorf("%s saw %s, want one of the nodes%s", server, client, nodes)
		}
	}
	both(t, func() (string, string, error) { return s.ask(t.Context(), "two", "http://"+ip) })
}

// nodes returns the addresses of all nodes, each between blanks.
func (s services) nodes(t *testing.T) string {
	t.Helper()
	return " " + s.kubectl(t, "get", "nodes", "-o",
		`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`) + " "
}

func testLocal(t *testing.T, s services) {
	ip := s.address(t, "local")
	machine := ""
	eventually(t, 30*time.Second, "the address", func() error {
		c, err := net.DialTimeout("tcp", ip+":80", 5*time.Second)
		if err != nil {
			return err
		}
		machine, _, _ = net.SplitHostPort(c.LocalAddr().String())
		return c.Close()
	})
	for range 8 {
		if server, client, err := askHere("http://" + ip); err != nil || server != "one" || client != machine {
			t.Errorf("%s saw %s, %v; want one to see the machine, %s", server, client, err, machine)
		}
	}
	// A pod on a node without a server gets there by the router.
	eventually(t, 20*time.Second, "from the other node", func() error {
		server, _, err := s.ask(t.Context(), "two", "http://"+ip)
		if err == nil && server != "one" {
			err = fmt.Errorf("%s answered", server)
		}
		return err
	})
	port := s.field(t, "service/local", ".spec.healthCheckNodePort")
	for node, want := range map[string]int{"win-1": http.StatusOK, "win-2": http.StatusServiceUnavailable} {
		eventually(t, 20*time.Second, "health check of "+node, func() error {
			resp, err := http.Get("http://" + s.node(t, node) + ":" + port + "/healthz")
			if err != nil {
				return err
			}
			_ = resp.Body.Close() // nothing was read
			if resp.StatusCode != want {
				return fmt.Errorf("%s, want %d", resp.Status, want)
			}
			return nil
		})
	}
}

// testPreserved: the server sees the load balancer's address as its own, for as long as the Service asks for it.
func testPreserved(t *testing.T, s services) {
	ip := s.address(t, "preserved")
	sees := func(want string) {
		t.Helper()
		eventually(t, 30*time.Second, "the destination "+want, func() error {
			destination, _, err := askHere("http://" + ip + "/destination")
			if err == nil && destination != want {
				err = fmt.Errorf("the server sees %s", destination)
			}
			return err
		})
	}
	sees(ip + ":8080")
	s.kubectl(t, "annotate", "-n", s.ns, "service/preserved", "preserve-destination-")
	sees(s.field(t, "pod/one", ".status.podIP") + ":8080")
}

func (s services) node(t *testing.T, name string) string {
	t.Helper()
	return s.kubectl(t, "get", "node", name, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
}

func testNodePorts(t *testing.T, s services) {
	cluster := s.field(t, "service/spread", ".spec.ports[0].nodePort")
	local := s.field(t, "service/local", ".spec.ports[0].nodePort")
	for _, node := range []string{"win-1", "win-2", "linux-1"} {
		url := "http://" + s.node(t, node) + ":"
		both(t, func() (string, string, error) { return askHere(url + cluster) })
		server, client, err := askHere(url + local)
		switch {
		case node == "win-1" && (err != nil || server != "one" || strings.Contains(s.nodes(t), " "+client+" ")):
			t.Errorf("Local on %s: %s saw %s, %v", node, server, client, err)
		case node != "win-1":
			denied(t, "Local on "+node+", which has no server", err)
		}
	}
	// Programs of a Windows node do not reach its own pods by a node port.
	single := s.field(t, "service/single", ".spec.ports[0].nodePort")
	fromHost := func(host, node string) error {
		return withOutput(s.try(t.Context(), "", "exec", "--name", s.name, "--data-dir", s.dir, host, "--", "curl.exe",
			"-s",
			"-S", "--max-time", "3", "http://"+s.node(t, node)+":"+single))
	}
	if err := fromHost("win-2", "win-1"); err != nil {
		t.Errorf("win-2 does not reach the node port of win-1: %v", err)
	}
	if err := fromHost("win-1", "win-2"); err != nil {
		t.Errorf("win-1 does not reach its pod by the node port of win-2: %v", err)
	}
	denied(t, "win-1 to its own pod by its own node port", fromHost("win-1", "win-1"))
}

func testDatagrams(t *testing.T, s services) {
	ip := s.address(t, "spread")
	query := func() (string, string, error) {
		c, err := net.Dial("udp", ip+":80")
		if err != nil {
			return "", "", err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return "", "", err
		}
		if _, err := c.Write([]byte("?")); err != nil {
			return "", "", err
		}
		buf := make([]byte, 200)
		n, err := c.Read(buf)
		if err != nil {
			return "", "", err
		}
		return parseAnswer(string(buf[:n]))
	}
	both(t, query)
	// The first datagram of each client is answered.
	for i := range 50 {
		if _, _, err := query(); err != nil {
			t.Errorf("datagram %d of 50: %v", i+1, err)
		}
	}
}

func testReasons(t *testing.T, s services) {
	for service, want := range map[string]string{
		"classed": `spec.loadBalancerClass is "example.com/other"`,
		"foreign": `spec.loadBalancerIP "192.0.2.7": this cluster has the addresses`,
		"sctp":    "port 80: SCTP: the cluster's load balancer and Windows nodes support only TCP and UDP",
	} {
		eventually(t, 20*time.Second, service, func() error {
			out := s.kubectl(t, "get", "events", "-n", s.ns, "--field-selector", "involvedObject.name="+service, "-o",
				"jsonpath={.items[*].message}")
			if !strings.Contains(out, want) {
				return fmt.Errorf("events say %q", out)
			}
			return nil
		})
		if ip := s.field(t, "service/"+service, ".status.loadBalancer.ingress[0].ip"); ip != "" {
			t.Errorf("%s has the address %s", service, ip)
		}
	}
}

func testSourceRanges(t *testing.T, s services) {
	ip := s.address(t, "spread")
	set := func(ranges string) {
		t.Helper()
		s.kubectl(t, "patch", "service", "-n", s.ns, "spread", "-p", `{"spec":{"loadBalancerSourceRanges":`+ranges+`}}`)
	}
	set(`["198.51.100.0/24"]`)
	eventually(t, 20*time.Second, "the machine is kept out", func() error {
		c, err := net.DialTimeout("tcp", ip+":80", time.Second)
		if err == nil {
			return errors.Join(errors.New("it gets in"), c.Close())
		}
		denied(t, "the machine", err)
		return nil
	})
	set("null")
	eventually(t, 20*time.Second, "everybody may come again", func() error {
		_, _, err := askHere("http://" + ip)
		return err
	})
}

// testTerminating: a pod that is deleted gets no new connections. That it is the only one which serves makes no
// difference on Windows: "If all endpoints are terminating, then no need to create Cluster IP LoadBalancer" (Kubernetes
// v1.36.3 pkg/proxy/winkernel/proxier.go).
func testTerminating(t *testing.T, s services) {
	s.kubectl(t, "delete", "pod", "-n", s.ns, "one", "--wait=false")
	eventually(t, 20*time.Second, "the other pod alone", func() error {
		for range 6 {
			server, _, err := s.ask(t.Context(), "newer", "http://named")
			if err != nil || server != "two" {
				return fmt.Errorf("%q answered, %w", server, err)
			}
		}
		return nil
	})
	_, _, err := s.ask(t.Context(), "newer", "http://single")
	denied(t, "a pod that terminates, of a Service without others", err)
	if s.field(t, "pod/one", ".metadata.deletionTimestamp") == "" {
		t.Error("the pod was not terminating")
	}
	s.kubectl(t, "delete", "pod", "-n", s.ns, "one", "--grace-period=1", "--wait=false")
}
