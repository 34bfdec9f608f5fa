// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Intervals of AwaitAnswer: between two attempts, the timeout of one, and between two checks of the cluster. It polls,
// because kube-proxy.exe cannot notify us that it has programmed a new Service, within a second of its first ready
// endpoint. A client that sends requests more often than its limit (client-go: 5 requests per second) gets an error
// instead of a reason shortly before the end.
const (
	answerInterval = 100 * time.Millisecond
	answerTimeout  = time.Second
	reasonInterval = time.Second
)

// AwaitAnswer waits until the address of a Service accepts connections, or ctx
// ends. After failed attempts it calls waiting with the reason. If ctx ends,
// the error contains the last reason. AwaitAnswer does not wait for UDP ports,
// because UDP has no connections.
func AwaitAnswer(ctx context.Context, client kubernetes.Interface, namespace, name, address string,
	waiting func(string)) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("await %s: %w", address, err)
	}
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get service %s/%s: %w", namespace, name, err)
	}
	if !isTCP(service, u.Port()) {
		return nil
	}
	lacks, looked := "no attempt has finished", time.Time{}
	err = supervise.Await(ctx, nil, answerInterval, func() error {
		dialer := net.Dialer{Timeout: answerTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", u.Host)
		if err == nil {
			return conn.Close()
		}
		if time.Since(looked) >= reasonInterval {
			looked = time.Now()
			if now := lacking(ctx, client, service); ctx.Err() == nil {
				lacks = now
				waiting(now)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("service %s/%s does not answer at %s: %s", namespace, name, address, lacks)
	}
	return nil
}

// isTCP reports whether the port that ServiceURL chose is one of TCP.
func isTCP(service *corev1.Service, port string) bool {
	balanced := len(service.Status.LoadBalancer.Ingress) > 0
	for _, p := range service.Spec.Ports {
		number := p.NodePort
		if balanced {
			number = p.Port
		}
		if strconv.Itoa(int(number)) == port {
			return p.Protocol == corev1.ProtocolTCP || p.Protocol == ""
		}
	}
	return true
}

// lacking returns the reason why a Service doesn't respond, or why it is not known.
func lacking(ctx context.Context, client kubernetes.Interface, service *corev1.Service) string {
	namespace, name := service.Namespace, service.Name
	slices, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{discoveryv1.LabelServiceName: name}.String(),
	})
	if err != nil {
		return fmt.Sprintf("cannot list its endpoints: %v", err)
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				return "waiting for kube-proxy to open its port"
			}
		}
	}
	if len(service.Spec.Selector) == 0 {
		return "no endpoint is ready, and it selects no pods"
	}
	selector := labels.Set(service.Spec.Selector).String()
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Sprintf("cannot list its pods: %v", err)
	}
	if len(pods.Items) == 0 {
		return fmt.Sprintf("no pod has the labels that it selects, %s", selector)
	}
	var all []string
	for _, p := range pods.Items {
		all = append(all, fmt.Sprintf("%s (%s)", p.Name, condition(&p)))
	}
	return "waiting for pods: " + strings.Join(all, ", ")
}

// condition is the state of a pod in one word, as kubectl shows it.
func condition(p *corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			return s.State.Waiting.Reason
		case s.State.Terminated != nil && s.State.Terminated.Reason != "":
			return s.State.Terminated.Reason
		case s.State.Running != nil && !s.Ready:
			return "not ready"
		}
	}
	return string(p.Status.Phase)
}
