// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/manager"
)

const linuxNode = "linux-1"

// manager does a kubelet's work for the pod of the Deployment's newest
// template: it waits for it, runs its command line and says that it is ready.
func (c *cluster) manager() *program {
	c.t.Helper()
	pod := c.managerPod()
	pods := c.client.CoreV1().Pods(pod.Namespace)
	err := pods.Bind(c.t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: linuxNode}}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.credentials(pod)
	container := pod.Spec.Containers[0]
	cmd := exec.Command("/proc/self/exe", container.Args...)
	cmd.Env = []string{roleVariable + "=" + roleMullion, "KUBERNETES_SERVICE_HOST=" + serverAddress, "KUBERNETES_SERVICE_PORT=6443", "HOSTNAME=" + pod.Name}
	for _, e := range container.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(*pod.Spec.SecurityContext.RunAsUser)}
	p := c.start("manager "+pod.Name, cmd)
	port := container.Ports[slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == container.ReadinessProbe.HTTPGet.Port.String() })].ContainerPort
	c.eventually("the manager's readiness", func() error {
		select {
		case <-p.done:
			c.t.Fatalf("the manager ended:\n%s", p.log)
		default:
		}
		return ok(c.t.Context(), fmt.Sprintf("http://%s:%d%s", podAddress, port, container.ReadinessProbe.HTTPGet.Path))
	})
	c.running(pod)
	return p
}

// managerPod waits for the one pod that no kubelet has yet.
func (c *cluster) managerPod() *corev1.Pod {
	c.t.Helper()
	var pod *corev1.Pod
	c.eventually("the manager's pod", func() error {
		d, err := c.client.AppsV1().Deployments(install.DefaultNamespace).Get(c.t.Context(), install.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, err := c.client.CoreV1().Pods(install.DefaultNamespace).List(c.t.Context(), metav1.ListOptions{LabelSelector: install.Selector})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && slices.Equal(p.Spec.Containers[0].Args, d.Spec.Template.Spec.Containers[0].Args) {
				pod = &p
				return nil
			}
		}
		return fmt.Errorf("%d pods, none of them new; conditions of the Deployment: %+v", len(list.Items), d.Status.Conditions)
	})
	return pod
}

// credentials lays out what a kubelet mounts into a pod.
func (c *cluster) credentials(pod *corev1.Pod) {
	c.t.Helper()
	seconds := int64(3600)
	token, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(c.t.Context(), pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	ca, err := os.ReadFile(c.path("certs", "apiserver.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	for name, content := range map[string]string{"token": token.Status.Token, "ca.crt": string(ca), "namespace": pod.Namespace} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
}

// running writes the status of a pod that is ready.
func (c *cluster) running(pod *corev1.Pod) {
	c.t.Helper()
	c.eventually("the pod's status", func() error {
		p, err := c.client.CoreV1().Pods(pod.Namespace).Get(c.t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.NewTime(time.Now().Add(-time.Second))
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs, p.Status.StartTime = corev1.PodRunning, podAddress, []corev1.PodIP{{IP: podAddress}}, &now
		p.Status.Conditions = nil
		for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}
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
		if p.DeletionTimestamp != nil {
			_ = c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
		}
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
	svc, err := c.client.CoreV1().Services(install.DefaultNamespace).Get(c.t.Context(), manager.ServiceName, metav1.GetOptions{})
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
	go forward(l, net.JoinHostPort(podAddress, "9443"))
}

func forward(l net.Listener, to string) {
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
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { _, _ = io.Copy(out, in) }() // ends with the connection
			_, _ = io.Copy(in, out)                 // as above
		}()
	}
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
