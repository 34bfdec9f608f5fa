// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// manyAddresses is a cluster with a Windows host and a Linux worker, and a server outside of the cluster that has
// thousands of addresses: more than pods could have here.
type manyAddresses struct {
	cluster
	client *kubernetes.Clientset
	netns  map[string]string // of the nodes and of the server
}

// manyServices is such a cluster with Services whose endpoints are addresses of the server.
type manyServices struct {
	manyAddresses
	vips   []netip.Addr // by the Service's number
	slices []*discoveryv1.EndpointSlice
	port   int32  // of the server
	stop   func() // ends the server
}

// Ranges for networks that measure (RFC 2544), and for documents (RFC 5737).
const (
	serverRange   = "198.18.0.0/15"
	serverAddress = "198.51.100.2"
	serverRouter  = "198.51.100.1"
)

// BenchmarkKubeProxy measures the real kube-proxy.exe with many Services: from the write of an EndpointSlice to the
// first connection, beside kube-proxy on a Linux worker; from its start to the last Service that answers; and what it
// and HNS use while nothing changes. kube-proxy changes nothing more than once a second (its minSyncPeriod).
func BenchmarkKubeProxy(b *testing.B) {
	m := newManyServices(b)
	for b.Loop() {
		for _, n := range []int{100, 1000} {
			m.grow(n)
			m.firstConnections(n)
		}
		m.start(2000)
		m.grow(5000)
		m.firstConnections(5000)
		m.idlePass()
	}
	b.ReportMetric(0, "ns/op") // the sum of different things
}

func newManyAddresses(b *testing.B) manyAddresses {
	b.Helper()
	c := newCluster(b)
	c.mullion("up", "--windows", "2022", "--kubeconfig", "none")
	server, router := netlab.Namespace(b, filepath.Join(b.TempDir(), "server")), c.run("netns", "mullion-"+name)
	netlab.Run(b, server, "ip link add eth0 type veth peer name server netns "+router, "ip link set lo up",
		"ip address add "+serverAddress+"/24 dev eth0", "ip link set eth0 up", "ip route add default via "+serverRouter,
		"ip route add local "+serverRange+" dev lo")
	netlab.Run(b, router, "ip address add "+serverRouter+"/24 dev server", "ip link set server up",
		"ip route add "+serverRange+" via "+serverAddress)
	return manyAddresses{cluster: c, client: c.client(), netns: map[string]string{
		"windows": fmt.Sprintf("/proc/%d/ns/net", c.initPID("win-1")),
		"linux":   fmt.Sprintf("/proc/%d/ns/net", c.initPID("linux-1")),
		"server":  server,
	}}
}

func newManyServices(b *testing.B) *manyServices {
	b.Helper()
	m := &manyServices{manyAddresses: newManyAddresses(b)}
	m.serve(8080)
	return m
}

// serve has the server listen at a port, and no longer at the one before.
func (m *manyServices) serve(port int32) {
	m.b.Helper()
	if m.stop != nil {
		m.stop()
	}
	m.port = port
	m.stop = netlab.Serve(m.b, m.netns["server"], "server", "tcp4",
		netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)))
}

// serverAddressOf is the n-th of a set of addresses of the server: there are four sets of 25,000.
func serverAddressOf(set, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18 + byte(set&1), byte(n>>8) + byte(set>>1)*100, byte(n)})
}

// endpoints returns the addresses of a Service: two and three, taken in turns.
func endpoints(service int) (list []string) {
	for e := range 2 + service%2 {
		list = append(list, serverAddressOf(e, service).String())
	}
	return list
}

// rounds is how many Services of each size have no endpoints at first.
const rounds = 30

// grow makes Services until there are n. The last ones have no endpoints.
func (m *manyServices) grow(n int) {
	m.b.Helper()
	first := len(m.vips)
	m.make(n, rounds)
	m.answer(first, n-rounds)
}

// make makes Services until there are n, of which so many have no endpoints.
func (m *manyServices) make(n, empty int) {
	m.b.Helper()
	first := len(m.vips)
	m.vips = append(m.vips, make([]netip.Addr, n-first)...)
	m.slices = append(m.slices, make([]*discoveryv1.EndpointSlice, n-first)...)
	m.each(first, n, func(i int) error { return m.service(i, i >= n-empty) })
}

// each calls do for each Service of a range, several at once.
func (m *manyServices) each(first, end int, do func(i int) error) {
	m.b.Helper()
	var g errgroup.Group
	g.SetLimit(8)
	for i := first; i < end; i++ {
		g.Go(func() error { return do(i) })
	}
	if err := g.Wait(); err != nil {
		m.b.Fatal(err)
	}
}

// service makes a Service and its EndpointSlice.
func (m *manyServices) service(i int, empty bool) error {
	name := fmt.Sprintf("s%d", i)
	s, err := m.client.CoreV1().Services("default").Create(m.b.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if m.vips[i], err = netip.ParseAddr(s.Spec.ClusterIP); err != nil {
		return err
	}
	none := ""
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &none, Port: &m.port}},
	}
	if !empty {
		slice.Endpoints = ready(endpoints(i))
	}
	m.slices[i], err = m.client.DiscoveryV1().EndpointSlices("default").Create(m.b.Context(), slice,
		metav1.CreateOptions{})
	return err
}

func ready(addresses []string) (list []discoveryv1.Endpoint) {
	for _, a := range addresses {
		list = append(list, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return list
}

// answer waits until the Services of a range answer on both nodes.
func (m *manyServices) answer(first, end int) {
	m.b.Helper()
	var g errgroup.Group
	for _, node := range []string{"windows", "linux"} {
		g.Go(func() error { return m.dialAll(node, m.vips[first:end]) })
	}
	if err := g.Wait(); err != nil {
		m.b.Fatal(err)
	}
}

// dialAll waits until all addresses answer on a node. kube-proxy programs them in no order.
func (m *manyServices) dialAll(node string, vips []netip.Addr) error {
	return kernel.Do(m.netns[node], func() error {
		for _, vip := range vips {
			if err := dial(vip, 3*time.Minute); err != nil {
				return fmt.Errorf("%s: %w", node, err)
			}
		}
		return nil
	})
}

// dial tries again and again until a connection is made. A packet that nothing answers is sent again only after a
// second, so an attempt is short.
func dial(vip netip.Addr, limit time.Duration) error {
	d := net.Dialer{Timeout: 25 * time.Millisecond}
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		conn, err := d.Dial("tcp4", netip.AddrPortFrom(vip, 80).String())
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// firstConnections gives endpoints to the Services without any, one after the other.
func (m *manyServices) firstConnections(n int) {
	m.b.Helper()
	took := map[string][]time.Duration{}
	for i := n - rounds; i < n; i++ {
		// At another part of the second each time.
		time.Sleep(time.Duration(i) * 130 * time.Millisecond % time.Second)
		slice := m.slices[i].DeepCopy()
		slice.Endpoints = ready(endpoints(i))
		var mu sync.Mutex
		var g errgroup.Group
		began := time.Now()
		for _, node := range []string{"windows", "linux"} {
			g.Go(func() error {
				err := m.dialAll(node, m.vips[i:i+1])
				mu.Lock()
				defer mu.Unlock()
				took[node] = append(took[node], time.Since(began))
				return err
			})
		}
		var err error
		m.slices[i], err = m.update(slice)
		if err := errors.Join(err, g.Wait()); err != nil {
			m.b.Fatal(err)
		}
	}
	for node, list := range took {
		slices.Sort(list)
		m.b.ReportMetric(percentile(list, 50), fmt.Sprintf("s-p50/%s-%d", node, n))
		m.b.ReportMetric(percentile(list, 99), fmt.Sprintf("s-p99/%s-%d", node, n))
	}
}

// proxyProgram ends the first words of the command line of kube-proxy.exe.
const proxyProgram = `\kube-proxy.exe`

// start measures from the start of kube-proxy.exe to the last of n Services that answers. The old one is stopped
// while Services are made and the others' endpoints get another port, so that none answers by what it has left.
func (m *manyServices) start(n int) {
	m.b.Helper()
	before := m.programs(proxyProgram)
	if len(before) != 1 {
		m.b.Fatalf("processes %v of kube-proxy.exe, want one", before)
	}
	if err := syscall.Kill(before[0], syscall.SIGSTOP); err != nil {
		m.b.Fatal(err)
	}
	m.serve(m.port + 1)
	m.each(0, len(m.slices), func(i int) (err error) {
		slice := m.slices[i].DeepCopy()
		slice.Ports[0].Port = &m.port
		m.slices[i], err = m.update(slice)
		return err
	})
	m.make(n, 0)
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		m.b.Fatal(err)
	}
	m.until("kube-proxy.exe starts again", func() bool {
		now := m.programs(proxyProgram)
		return len(now) == 1 && now[0] != before[0]
	})
	began := time.Now()
	if err := m.dialAll("windows", m.vips); err != nil {
		m.b.Fatal(err)
	}
	m.b.ReportMetric(time.Since(began).Seconds(), fmt.Sprintf("s/start-%d", n))
}

func (m *manyServices) update(slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	return m.client.DiscoveryV1().EndpointSlices(slice.Namespace).Update(m.b.Context(), slice, metav1.UpdateOptions{})
}

// idlePass measures the processor time that kube-proxy.exe takes for a pass in which nothing has changed, one every
// 30 s, and beside it that of HNS and of Wine in the same time, which serve other programs of the host, too.
func (m *manyServices) idlePass() {
	m.b.Helper()
	const passes = 2
	used := func(parts ...string) (sum float64) {
		for _, part := range parts {
			for _, pid := range m.programs(part) {
				sum += testenv.ProcessorTime(m.b, pid)
			}
		}
		return sum
	}
	time.Sleep(30 * time.Second) // the last changes have been worked up
	proxy, others := used(proxyProgram), used("serve", "wineserver")
	time.Sleep(passes * 30 * time.Second)
	m.b.ReportMetric((used(proxyProgram)-proxy)/passes, "s-of-a-cpu/pass-5000")
	m.b.ReportMetric((used("serve", "wineserver")-others)/passes, "s-of-a-cpu/hns-wine-5000")
}
