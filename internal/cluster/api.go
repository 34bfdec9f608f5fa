// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// requestLimit bounds one request to the API server: a server that does not respond must
// not hang `mullion status`.
const requestLimit = 5 * time.Second

// Client talks to the cluster's API server as its administrator.
func Client(l Layout) (kubernetes.Interface, error) { return newClient(l, requestLimit) }

// newClient returns a client whose requests end after the limit, which is 0 for none.
func newClient(l Layout, limit time.Duration) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.Timeout = limit
	cfg.QPS, cfg.Burst = 50, 100 // the default of 5 a second is for controllers, not for people
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// NodeReady returns nil if the node is ready, and else why it is not.
func NodeReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	return readiness(node)
}

// readySince returns nil if the node has reported since the given time that it is ready, and else
// why it is not. A node that was restarted still has the report from before, which is stale.
func readySince(node *corev1.Node, since time.Time) error {
	// Times on the wire have whole seconds.
	if t := lastReport(node); t.Before(since.Truncate(time.Second)) {
		return fmt.Errorf("node %s has not reported yet", node.Name)
	}
	return readiness(node)
}

func lastReport(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

func readiness(node *corev1.Node) error {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("node is not ready: %s", c.Message)
		}
	}
	return fmt.Errorf("node %s has not reported yet", node.Name)
}

// ServiceURL returns the URL, for this machine, of a Service with a load balancer's address or with
// node ports. It prefers the port named portName; "" takes the first.
func ServiceURL(ctx context.Context, client kubernetes.Interface, namespace, name, portName string) (string, error) {
	svc, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get service %s/%s: %w", namespace, name, err)
	}
	port, err := choosePort(svc, portName)
	if err != nil {
		return "", err
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			return fmt.Sprintf("%s://%s", scheme(port), net.JoinHostPort(in.IP, strconv.Itoa(int(port.Port)))), nil
		}
	}
	six := len(svc.Spec.IPFamilies) > 0 && !slices.Contains(svc.Spec.IPFamilies, corev1.IPv4Protocol)
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		if readiness(&n) != nil {
			continue
		}
		if a, ok := nodeAddress(&n, six); ok {
			return fmt.Sprintf("%s://%s", scheme(port), netip.AddrPortFrom(a, uint16(port.NodePort))), nil
		}
	}
	if six {
		return "", fmt.Errorf("service %s/%s has %s only, and no node that is ready serves its node port %d in it; "+
			"set spec.ipFamilyPolicy to %s, or use 'mullion kubectl port-forward service/%s'", namespace, name,
			corev1.IPv6Protocol, port.NodePort, corev1.IPFamilyPolicyPreferDualStack, name)
	}
	return "", fmt.Errorf("service %s/%s: no node is ready to serve its node port %d", namespace, name, port.NodePort)
}

// nodeAddress returns the address where a node serves node ports of IPv4 or, with six, of IPv6.
func nodeAddress(n *corev1.Node, six bool) (netip.Addr, bool) {
	if six && n.Labels[corev1.LabelOSStable] == "windows" && !winver.TwoFamilies(n.Labels[corev1.LabelWindowsBuild]) {
		return netip.Addr{}, false
	}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is6() == six {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

func choosePort(svc *corev1.Service, portName string) (corev1.ServicePort, error) {
	for _, p := range svc.Spec.Ports {
		if portName != "" && p.Name != portName {
			continue
		}
		if p.NodePort == 0 && len(svc.Status.LoadBalancer.Ingress) == 0 {
			return p, fmt.Errorf("service %s/%s is of type %s, which has no node port; make it a NodePort, or use "+
				"'mullion kubectl port-forward service/%s'",
				svc.Namespace, svc.Name, svc.Spec.Type, svc.Name)
		}
		return p, nil
	}
	return corev1.ServicePort{}, fmt.Errorf("service %s/%s has no port %q", svc.Namespace, svc.Name, portName)
}

// scheme guesses from the names and numbers that people use for TLS.
func scheme(p corev1.ServicePort) string {
	if p.Port == 443 || p.Port == 8443 || p.Name == "https" {
		return "https"
	}
	return "http"
}
