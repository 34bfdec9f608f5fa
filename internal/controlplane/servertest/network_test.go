// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// inside runs f in the network namespace of a process.
func inside(pid int, f func() error) error {
	return kernel.Do(fmt.Sprintf("/proc/%d/ns/net", pid), f)
}

// TestNetwork runs a control plane with DNS in a network namespace of its own,
// where it has the addresses that it has in a real cluster.
func TestNetwork(t *testing.T) {
	testenv.Need(t, testenv.Root)
	s := controlplanetest.New(t, func(c *config.Config) {
		c.Addresses = append(c.Addresses, netip.MustParseAddr("10.89.0.1"))
		c.Port = 6443
		c.DNSAddress = netip.MustParseAddrPort("10.89.0.1:53")
		c.DNSUpstream = []netip.AddrPort{}
		c.MetricsAddress = netip.MustParseAddrPort("10.89.0.1:4443")
	})
	s.Wrap = []string{"unshare", "-n", "sh", "-ec", `ip link set lo up; ip addr add 10.89.0.1/24 dev lo; exec "$@"`,
		"sh"}
	s.Start()
	s.Ready()
	pid := s.PID()

	t.Run("sockets", func(t *testing.T) {
		want := []string{"tcp 10.89.0.1:4443", "tcp 10.89.0.1:53", "tcp 10.89.0.1:6443", "tcp 127.0.0.1:6443",
			"udp 10.89.0.1:53"}
		if d := cmp.Diff(want, listening(t, pid)); d != "" {
			t.Errorf("it listens elsewhere than it should (-want +got):\n%s", d)
		}
	})

	cfg := s.REST()
	cfg.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = inside(pid, func() error {
			var d net.Dialer
			conn, err = d.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	admin := controlplanetest.Client(t, cfg)
	t.Run("DNS", func(t *testing.T) { resolve(t, s, admin) })
	t.Run("service", func(t *testing.T) {
		svc, err := admin.CoreV1().Services("kube-system").Get(t.Context(), "kube-dns", metav1.GetOptions{})
		if err != nil || svc.Spec.ClusterIP != "10.96.0.10" || len(svc.Spec.Selector) > 0 {
			t.Errorf("%v, %v", svc, err)
		}
		slices, err := admin.DiscoveryV1().EndpointSlices("kube-system").List(t.Context(),
			metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kube-dns"})
		if err != nil || len(slices.Items) != 1 || slices.Items[0].Endpoints[0].Addresses[0] != "10.89.0.1" {
			t.Errorf("%v, %v", slices, err)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		const path = "/apis/metrics.k8s.io/v1beta1/nodes"
		testenv.Eventually(t, "the metrics API", func() error {
			body, err := admin.RESTClient().Get().AbsPath(path).Do(t.Context()).Raw()
			if err == nil && !strings.Contains(string(body), `"kind":"NodeMetricsList"`) {
				err = fmt.Errorf("%s is %s", path, body)
			}
			return err
		})
		direct := rest.AnonymousClientConfig(cfg)
		direct.Host, direct.ServerName = "https://"+s.Config.MetricsAddress.String(), "metrics-server.kube-system.svc"
		err := controlplanetest.Client(t, direct).RESTClient().Get().AbsPath(path).Do(t.Context()).Error()
		if !apierrors.IsForbidden(err) {
			t.Errorf("a client without a name that asks metrics-server itself gets %v, want Forbidden", err)
		}
	})
	s.Stop()
}

// resolve asks the cluster's DNS server as a pod would.
func resolve(t *testing.T, s *controlplanetest.Server, admin *kubernetes.Clientset) {
	ctx := t.Context()
	web, err := admin.CoreV1().Services("default").Create(ctx,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(network, name string, kind uint16) (answer string, err error) {
		err = inside(s.PID(), func() error {
			c := dns.Client{Net: network}
			reply, _, err := c.ExchangeContext(ctx, new(dns.Msg).SetQuestion(name, kind), s.Config.DNSAddress.String())
			if err != nil {
				return err
			}
			answer = dns.RcodeToString[reply.Rcode]
			for _, rr := range reply.Answer {
				answer += " " + strings.TrimPrefix(rr.String(), rr.Header().String())
			}
			return nil
		})
		return answer, err
	}
	reverse, err := dns.ReverseAddr(web.Spec.ClusterIP)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		network, name string
		kind          uint16
		want          string
	}{
		{"udp", "kubernetes.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.96.0.1"},
		{"udp", "kube-dns.kube-system.svc.cluster.local.", dns.TypeA, "NOERROR 10.96.0.10"},
		{"udp", "web.default.svc.cluster.local.", dns.TypeA, "NOERROR " + web.Spec.ClusterIP},
		{"tcp", "web.default.svc.cluster.local.", dns.TypeA, "NOERROR " + web.Spec.ClusterIP},
		{"udp", "_http._tcp.web.default.svc.cluster.local.", dns.TypeSRV,
			"NOERROR 0 100 80 web.default.svc.cluster.local."},
		{"udp", reverse, dns.TypePTR, "NOERROR web.default.svc.cluster.local."},
		{"udp", "none.default.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"udp", "example.com.", dns.TypeA, "SERVFAIL"}, // there is no upstream server
	} {
		testenv.Eventually(t, tc.name, func() error {
			got, err := ask(tc.network, tc.name, tc.kind)
			if err == nil && got != tc.want {
				err = fmt.Errorf("answer %q, want %q", got, tc.want)
			}
			return err
		})
	}
}

// listening reads which sockets wait for peers in a process' namespace.
func listening(t *testing.T, pid int) []string {
	t.Helper()
	var out []string
	for _, kind := range []string{"tcp", "tcp6", "udp", "udp6"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, kind))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			f := strings.Fields(line)
			// The state: 0A is LISTEN, 07 a datagram socket without a peer.
			if i == 0 || f[3] != "0A" && f[3] != "07" {
				continue
			}
			out = append(out, kind+" "+socket(t, f[1]))
		}
	}
	slices.Sort(out)
	return out
}

// socket turns "0100007F:192B" into an address: IPv4 in the processor's order.
func socket(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(b)
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		t.Fatalf("address %q", text)
	}
	return netip.AddrPortFrom(a, uint16(n)).String()
}
