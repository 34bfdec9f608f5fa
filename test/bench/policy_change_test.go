// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// policyChange is a Windows pod that a policy guards, among 1,000 other pods and 1,000 other policies. The other pods
// are on a node that does not exist; their addresses are the server's.
type policyChange struct {
	manyAddresses
	guarded netip.AddrPort
	took    map[string][]time.Duration
}

// others is how many pods and policies there are beside what is measured.
const others = 1000

// BenchmarkPolicyChange measures from a changed label of a pod until another pod, of Windows, lets it in or keeps it
// out.
func BenchmarkPolicyChange(b *testing.B) {
	p := &policyChange{manyAddresses: newManyAddresses(b), took: map[string][]time.Duration{}}
	p.populate()
	p.guard()
	for b.Loop() {
		for i := range rounds {
			time.Sleep(time.Duration(i) * 130 * time.Millisecond % time.Second)
			p.change("allowed", `{"metadata":{"labels":{"friend":"yes"}}}`, true)
			p.change("denied", `{"metadata":{"labels":{"friend":null}}}`, false)
		}
	}
	for what, list := range p.took {
		slices.Sort(list)
		b.ReportMetric(percentile(list, 50), "s-p50/"+what)
		b.ReportMetric(percentile(list, 99), "s-p99/"+what)
	}
	b.ReportMetric(0, "ns/op") // the sum of both
}

// populate makes the other pods and policies.
func (p *policyChange) populate() {
	p.b.Helper()
	ctx, b := p.b.Context(), p.b
	if _, err := p.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(8)
	for i := range others {
		g.Go(func() error {
			pod := &corev1.Pod{}
			p.decode(fmt.Sprintf(`metadata: {name: p%d, labels: {app: a%d, pod: p%d}}
spec:
  os: {name: linux}
  nodeSelector: {kubernetes.io/os: linux}
  nodeName: elsewhere
  containers: [{name: main, image: "mullion/hello:1"}]`, i, i%100, i), pod)
			pod, err := p.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			address := serverAddressOf(0, i+1).String()
			pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, address
			pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
			_, err = p.client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		})
		g.Go(func() error {
			return p.policy(fmt.Sprintf(`metadata: {name: p%d}
spec: {podSelector: {matchLabels: {app: a%d}}, ingress: [{from: [{podSelector: {matchLabels: {pod: p%d}}}]}]}`, i,
				i%100, i))
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

func (p *policyChange) policy(document string) error {
	n := &networkingv1.NetworkPolicy{}
	p.decode(document, n)
	_, err := p.client.NetworkingV1().NetworkPolicies("default").Create(p.b.Context(), n, metav1.CreateOptions{})
	return err
}

// guard starts the pod that is measured, with its policy.
func (p *policyChange) guard() {
	p.b.Helper()
	if err := p.policy(`metadata: {name: guarded}
spec: {podSelector: {matchLabels: {app: guarded}}, ingress: [{from: [{podSelector: {matchLabels: {friend: "yes"}}}]}]}`,
	); err != nil {
		p.b.Fatal(err)
	}
	p.kubectl("run", "guarded", "--labels=app=guarded",
		"--image=mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022",
		`--overrides={"spec":{"nodeSelector":{"kubernetes.io/os":"windows"}}}`)
	p.kubectl("wait", "--for=condition=Ready", "pod/guarded", "--timeout=120s")
	pod, err := p.client.CoreV1().Pods("default").Get(p.b.Context(), "guarded", metav1.GetOptions{})
	if err != nil {
		p.b.Fatal(err)
	}
	p.guarded = netip.AddrPortFrom(netip.MustParseAddr(pod.Status.PodIP), 80)
}

// change changes the first of the other pods and waits until its connections pass, or no longer do.
func (p *policyChange) change(what, patch string, passes bool) {
	p.b.Helper()
	from := &net.TCPAddr{IP: serverAddressOf(0, 1).AsSlice()}
	began := time.Now()
	if _, err := p.client.CoreV1().Pods("default").Patch(p.b.Context(), "p0", types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		p.b.Fatal(err)
	}
	err := kernel.Do(p.netns["server"], func() error {
		d := net.Dialer{Timeout: 100 * time.Millisecond, LocalAddr: from}
		for ; ; time.Sleep(2 * time.Millisecond) {
			tried := time.Now()
			conn, err := d.Dial("tcp4", p.guarded.String())
			if err == nil {
				_ = conn.Close() // nothing was written
			}
			switch {
			case passes && err == nil:
				p.took[what] = append(p.took[what], time.Since(began))
				return nil
			case !passes && err != nil:
				p.took[what] = append(p.took[what], tried.Sub(began))
				return nil
			case tried.Sub(began) > 3*time.Minute:
				return fmt.Errorf("%s: not within 3 minutes: %w", what, err)
			}
		}
	})
	if err != nil {
		p.b.Fatal(err)
	}
}
