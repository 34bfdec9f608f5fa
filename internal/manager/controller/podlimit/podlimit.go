// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package podlimit emits events about the limit that has ended a container of an emulated
// host. The host's container runtime writes it into the container's status, of which only
// the last two ends are kept; a Warning event of the pod, which `kubectl describe pod` and
// `kubectl get events` show, outlives the container and the pod.
//
// events is pure; Controller feeds it.
package podlimit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/mullion-k8s/mullion/internal/manager/controller"
)

// reasons are the termination reasons that the container runtime adds
// (internal/cri/server, limits.go) to the reasons on Windows.
func reasons() []string {
	return []string{"OOMKilled", "ProcessLimitExceeded", "DiskLimitExceeded"}
}

// maxAge is the maximum age of an end that gets an event. The API server forgets events
// after an hour (kube-apiserver --event-ttl).
const maxAge = time.Hour

// maxMessageBytes is how long the message of an event may be:
// k8s.io/kubernetes/pkg/apis/core/validation/events.go, NoteLengthLimit.
const maxMessageBytes = 1024

// Rules are the rights that the controller needs.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// limitEvent is an event and the end of the container that it reports.
type limitEvent struct {
	Name string
	At   time.Time
	Body *applycorev1.EventApplyConfiguration
}

// events returns an event for each container of the pod that a limit has ended. The same
// end always gives the same event.
func events(pod *corev1.Pod) []limitEvent {
	var out []limitEvent
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			for _, state := range []corev1.ContainerState{c.LastTerminationState, c.State} {
				// Without a message it is another runtime's, which does not add to the status.
				if t := state.Terminated; t != nil && t.Message != "" && slices.Contains(reasons(), t.Reason) {
					out = append(out, event(pod, c.Name, t))
				}
			}
		}
	}
	return out
}

func event(pod *corev1.Pod, container string, t *corev1.ContainerStateTerminated) limitEvent {
	message := fmt.Sprintf("Container %s was ended: %s", container, t.Message)
	message = strings.ToValidUTF8(message[:min(len(message), maxMessageBytes)], "")
	body := controller.PodEvent(pod, t.ContainerID+" ", t.Reason, message, t.FinishedAt)
	body.InvolvedObject.WithFieldPath(fmt.Sprintf("spec.containers{%s}", container))
	body.Source.WithHost(pod.Spec.NodeName)
	return limitEvent{*body.Name, t.FinishedAt.Time, body}
}
