// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

const linuxNode = "linux-1"

// manager does a kubelet's work for the pod of the Deployment's newest
// template: it waits for it, runs its command line and says that it is ready.
func (c *cluster) manager() *running {
	c.t.Helper()
	p := c.begin(c.managerPod(), c.address())
	c.ready(p)
	return p
}

// address is one that no pod has had.
func (c *cluster) address() netip.Addr {
	*c.lastPod = c.lastPod.Next()
	return *c.lastPod
}

// begin binds a pod and runs its command line.
func (c *cluster) begin(pod *corev1.Pod, address netip.Addr) *running {
	c.t.Helper()
	err := c.client.CoreV1().Pods(pod.Namespace).Bind(c.t.Context(),
		&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
			Target: corev1.ObjectReference{Kind: "Node", Name: linuxNode}}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.restart(pod, address)
}

// restart runs the command line of a pod that is bound.
func (c *cluster) restart(pod *corev1.Pod, address netip.Addr) *running {
	c.t.Helper()
	p := c.spawn(pod, address)
	c.alive.Store(pod.UID, p.done)
	return p
}

// ready asks a manager until it is, and says so.
func (c *cluster) ready(p *running) {
	c.t.Helper()
	container := p.pod.Spec.Containers[0]
	port := container.Ports[slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool {
		return p.Name == container.ReadinessProbe.HTTPGet.Port.String()
	})].ContainerPort
	c.eventually("the manager's readiness", func() error {
		select {
		case <-p.done:
			c.t.Fatalf("the manager ended:\n%s", p.log)
		default:
		}
		return ok(c.t.Context(), fmt.Sprintf("http://%s:%d%s", p.address, port, container.ReadinessProbe.HTTPGet.Path))
	})
	c.status(p, true)
}

// managerPod waits for the one pod that no kubelet has yet.
func (c *cluster) managerPod() *corev1.Pod {
	c.t.Helper()
	var pod *corev1.Pod
	c.eventually("the manager's pod", func() error {
		d, err := c.client.AppsV1().Deployments(install.DefaultNamespace).Get(c.t.Context(), install.Name,
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, err := c.client.CoreV1().Pods(install.DefaultNamespace).List(c.t.Context(),
			metav1.ListOptions{LabelSelector: install.Selector})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Spec.NodeName == "" && p.DeletionTimestamp == nil &&
				slices.Equal(p.Spec.Containers[0].Args, d.Spec.Template.Spec.Containers[0].Args) {
				pod = &p
				return nil
			}
		}
		return fmt.Errorf("%d pods, none of them new; conditions of the Deployment: %+v", len(list.Items),
			d.Status.Conditions)
	})
	return pod
}

// mounts lays out what a kubelet mounts into a pod.
func (c *cluster) mounts(pod *corev1.Pod) map[string]string {
	c.t.Helper()
	seconds := int64(3600)
	token, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(c.t.Context(),
		pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds,
				BoundObjectRef: &authenticationv1.BoundObjectReference{
					Kind:       "Pod",
					APIVersion: "v1",
					Name:       pod.Name,
					UID:        pod.UID,
				}},
		}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	ca, err := os.ReadFile(c.path("certs", "apiserver.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.path("pods", string(pod.UID))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	for name, content := range map[string]string{"token": token.Status.Token, "ca.crt": string(ca),
		"namespace": pod.Namespace} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	out := map[string]string{credentialsDir: dir}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i >= 0 && pod.Spec.Volumes[i].ConfigMap != nil {
			out[m.MountPath] = c.configMap(pod, pod.Spec.Volumes[i].ConfigMap.Name)
		}
	}
	return out
}

// configMap writes one into files.
func (c *cluster) configMap(pod *corev1.Pod, name string) string {
	c.t.Helper()
	m, err := c.client.CoreV1().ConfigMaps(pod.Namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.path("pods", string(pod.UID)+"-"+name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	for key, value := range m.Data {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	return dir
}

// status writes the status of a pod whose container is ready, or has ended.
func (c *cluster) status(r *running, ready bool) {
	c.t.Helper()
	pod, is := r.pod, corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	c.eventually("the pod's status", func() error {
		p, err := c.client.CoreV1().Pods(pod.Namespace).Get(c.t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.NewTime(time.Now().Add(-time.Second))
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs, p.Status.StartTime = corev1.PodRunning, r.address,
			[]corev1.PodIP{{IP: r.address}}, &now
		p.Status.Conditions = nil
		for t, is := range map[corev1.PodConditionType]corev1.ConditionStatus{
			corev1.PodScheduled: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue,
			corev1.ContainersReady: is, corev1.PodReady: is,
		} {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: t, Status: is, LastTransitionTime: now})
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}
		_, err = c.client.CoreV1().Pods(pod.Namespace).UpdateStatus(c.t.Context(), p, metav1.UpdateOptions{})
		return err
	})
}

// bury removes pods that are being deleted, as kubelets do once their processes
// have ended. Errors do not count: it is done again.
func (c *cluster) bury(ctx context.Context) {
	list, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	none := int64(0)
	for _, p := range list.Items {
		if done, ok := c.alive.Load(p.UID); ok && !ended(done.(chan struct{})) {
			continue
		}
		if p.DeletionTimestamp != nil {
			_ = c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
		}
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// kubelet buries pods until the test ends.
func (c *cluster) kubelet() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			c.bury(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	c.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// dns gives the webhooks' Service its name, and forwards its ClusterIP as
// kube-proxy would. The API server does not use it: it asks EndpointSlices.
func (c *cluster) dns() {
	c.t.Helper()
	svc, err := c.client.CoreV1().Services(install.DefaultNamespace).Get(c.t.Context(), inventory.Service,
		metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if svc.Spec.ClusterIP == c.proxied {
		return
	}
	c.proxied = svc.Spec.ClusterIP
	hosts(c.t, map[string]string{svc.Name + "." + svc.Namespace + ".svc": svc.Spec.ClusterIP})
	link, err := netlink.LinkByName("lo")
	if err != nil {
		c.t.Fatal(err)
	}
	if err := addAddress(link, svc.Spec.ClusterIP+"/32"); err != nil {
		c.t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(svc.Spec.ClusterIP, "443"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	go c.forward(l)
}

// forward sends connections to any of the Service's endpoints, as kube-proxy
// does.
func (c *cluster) forward(l net.Listener) {
	for {
		in, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go func() {
			defer in.Close()
			to := c.endpoints(context.Background())
			if len(to) == 0 {
				return
			}
			out, err := net.Dial("tcp", net.JoinHostPort(to[rand.IntN(len(to))], "9443"))
			if err != nil {
				return
			}
			defer out.Close()
			go func() { _, _ = io.Copy(out, in) }() // ends with the connection
			_, _ = io.Copy(in, out)                 // as above
		}()
	}
}

// endpoints returns the addresses of the pods that stand for the Service; none if
// the API server does not say.
func (c *cluster) endpoints(ctx context.Context) []string {
	list, err := c.client.DiscoveryV1().EndpointSlices(install.DefaultNamespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + inventory.Service})
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				out = append(out, e.Addresses...)
			}
		}
	}
	return out
}

// lacks says which rights a manager missed, by its log.
func lacks(p *program) string {
	var out []string
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "cannot") && strings.Contains(line, "resource") { // "User … cannot list resource …"
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
