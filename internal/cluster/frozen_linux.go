// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
)

// notStopped returns a check for supervise.Component.Alive that fails while a signal has stopped one of the processes.
// A process that a debugger has stopped passes, and so does one that has ended.
func notStopped(pids func() []int) func(ctx context.Context) error {
	return func(context.Context) error {
		for _, pid := range pids() {
			if host.ProcessState(pid) == 'T' {
				return fmt.Errorf("a signal has stopped process %d", pid)
			}
		}
		return nil
	}
}

// warn records an event about the Node of a host that was restarted because a signal had stopped one of its processes.
// It retries until the control plane is reachable or the context ends.
func (r *run) warn(ctx context.Context, name, message string) {
	now := metav1.NewTime(time.Now())
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + ".", Namespace: metav1.NamespaceDefault},
		// As in the kubelet's own events about the node, see nodeapi.Client.Warn.
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)},
		Reason:         nodeapi.ReasonFrozen, Message: message, Type: corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: "mullion", Host: name},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	// An error means that the supervisor ends.
	_ = r.request(ctx, func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		return err
	})
}
