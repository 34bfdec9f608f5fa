// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// The cluster of BenchmarkTop.
const (
	topNodes       = 20
	topPodsPerNode = 10
	topKubelets    = "10.89.0.2" // the address of all kubelets
)

// BenchmarkTop measures `kubectl top` with 20 nodes of ten pods each: the whole command, the start of kubectl alone,
// and the request for the figures alone. The control plane is the real one; the nodes are objects, and one program
// answers as their kubelets do, because 20 hosts do not fit a machine with two processors. What a kubelet needs to
// make its figures does not count, because metrics-server has them already when it is asked.
func BenchmarkTop(b *testing.B) {
	testenv.Need(b, testenv.Root)
	s := controlplanetest.New(b, func(c *config.Config) {
		c.Addresses = append(c.Addresses, netip.MustParseAddr("10.89.0.1"))
		c.Port = 6443
		c.MetricsAddress = netip.MustParseAddrPort("10.89.0.1:4443")
	})
	s.Wrap = []string{"unshare", "-n", "sh", "-ec",
		`ip link set lo up; ip addr add 10.89.0.1/24 dev lo; ip addr add ` + topKubelets +
			`/24 dev lo; exec "$@"`, "sh"}
	s.Start()
	b.Cleanup(s.Stop)
	s.Ready()
	cfg := s.REST()
	cfg.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = inside(s.PID(), func() error {
			var d net.Dialer
			conn, err = d.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	admin := controlplanetest.Client(b, cfg)
	certificate := kubeletCertificate(b, s)
	for n := range topNodes {
		name := fmt.Sprintf("node-%d", n)
		addNode(b, admin, name, fakeKubelet(b, s.PID(), certificate, name))
	}
	const api = "/apis/metrics.k8s.io/v1beta1/"
	ask := func(what string) error {
		return admin.RESTClient().Get().AbsPath(api + what).Do(b.Context()).Error()
	}
	for what, want := range map[string]int{"nodes": topNodes, "pods": topNodes * topPodsPerNode} {
		testenv.Eventually(b, "figures of all "+what, func() error {
			body, err := admin.RESTClient().Get().AbsPath(api + what).Do(b.Context()).Raw()
			if got := strings.Count(string(body), `"timestamp"`); err == nil && got != want {
				err = fmt.Errorf("%d, want %d", got, want)
			}
			return err
		})
	}
	kubectl := func(args ...string) func() error {
		return func() error {
			cmd := exec.Command(testenv.Bin("mullion-kube"), slices.Concat([]string{"kubectl", "--kubeconfig",
				s.Config.AdminKubeconfig()}, args)...)
			return inside(s.PID(), cmd.Run)
		}
	}
	for b.Loop() {
		for _, m := range []struct {
			name  string
			times int
			ask   func() error
		}{
			{"nodes", 100, kubectl("top", "nodes")},
			{"pods", 100, kubectl("top", "pods", "--containers")},
			{"kubectl", 100, kubectl("version", "--client")}, // asks no server
			{"nodes-api", 500, func() error { return ask("nodes") }},
			{"pods-api", 500, func() error { return ask("pods") }},
		} {
			var took []time.Duration
			for range m.times {
				began := time.Now()
				if err := m.ask(); err != nil {
					b.Fatalf("%s: %v", m.name, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(1000*took[len(took)/2].Seconds(), "ms-p50/"+m.name)
			b.ReportMetric(1000*took[len(took)*99/100].Seconds(), "ms-p99/"+m.name)
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of different things
}

// kubeletCertificate has the cluster's authority sign a certificate for all kubelets.
func kubeletCertificate(b *testing.B, s *controlplanetest.Server) tls.Certificate {
	b.Helper()
	keys := pki.Store{Dir: s.Config.PKI(), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	p := pki.NewPlan(s.Config)
	p.Leaves = append(p.Leaves, pki.Leaf{Name: "kubelet", Authority: pki.ClusterCA, CommonName: "system:node:all",
		Addresses: []netip.Addr{netip.MustParseAddr(topKubelets)}})
	if _, err := keys.Ensure(p); err != nil {
		b.Fatal(err)
	}
	c, err := tls.LoadX509KeyPair(keys.Leaf("kubelet"), keys.Leaf("kubelet"))
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// fakeKubelet serves what a kubelet reports of a node and its pods, in the network namespace of a process, and
// returns its port.
func fakeKubelet(b *testing.B, pid int, certificate tls.Certificate, node string) int32 {
	b.Helper()
	var l net.Listener
	err := inside(pid, func() (err error) {
		l, err = net.Listen("tcp", topKubelets+":0")
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	server := http.Server{
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			now, used := time.Now(), time.Since(began).Seconds()/10
			at := now.UnixMilli()
			fmt.Fprintf(w, "node_cpu_usage_seconds_total %f %d\n", 1+used, at)
			fmt.Fprintf(w, "node_memory_working_set_bytes 5e+08 %d\n", at)
			for n := range topPodsPerNode {
				labels := fmt.Sprintf(`{container="main",namespace="default",pod="%s-%d"}`, node, n)
				fmt.Fprintf(w, "container_cpu_usage_seconds_total%s %f %d\n", labels, 1+used, at)
				fmt.Fprintf(w, "container_memory_working_set_bytes%s 2e+07 %d\n", labels, at)
				fmt.Fprintf(w, "container_start_time_seconds%s %d\n", labels, began.Add(-time.Hour).Unix())
			}
		}),
	}
	go func() { _ = server.ServeTLS(l, "", "") }() // until it is closed
	b.Cleanup(func() { _ = server.Close() })
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// addNode makes the objects of a node and its pods.
func addNode(b *testing.B, admin *kubernetes.Clientset, name string, port int32) {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"kubernetes.io/os": "windows"}}}
	if _, err := admin.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	size := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
		"pods": resource.MustParse("110")}
	// Controllers change the node, too, so that its status is patched.
	patch, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: topKubelets}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Capacity:        size, Allocatable: size,
	}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := admin.CoreV1().Nodes().PatchStatus(b.Context(), name, patch); err != nil {
		b.Fatal(err)
	}
	for n := range topPodsPerNode {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, n)},
			Spec: corev1.PodSpec{NodeName: name,
				Containers: []corev1.Container{{Name: "main", Image: "example.test/main"}}}}
		pod, err := admin.CoreV1().Pods("default").Create(b.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
		if _, err := admin.CoreV1().Pods("default").UpdateStatus(b.Context(), pod, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
