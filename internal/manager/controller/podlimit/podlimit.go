// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package podlimit tells users which limit has ended a container of an emulated host. The
// host's container runtime writes it into the container's status, of which only the last two
// ends are kept; a Warning event of the pod, which `kubectl describe pod` and `kubectl get
// events` show, outlives the container and the pod.
//
// events is pure; Controller feeds it.
package podlimit

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// reasons are those that the container runtime gives (internal/cri/server, limits.go), and
// that Windows' own does not have.
func reasons() []string {
	return []string{"OOMKilled", "ProcessLimitExceeded", "DiskLimitExceeded"}
}

// maxAge is how old an end may be to be told. The API server forgets events after an hour
// (kube-apiserver --event-ttl).
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

// limitEvent is an event and the end of the container that it tells of.
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
				// Without a message it is another runtime's, which does not say more than the status.
				if t := state.Terminated; t != nil && t.Message != "" && slices.Contains(reasons(), t.Reason) {
					out = append(out, event(pod, c.Name, t))
				}
			}
		}
	}
	return out
}

func event(pod *corev1.Pod, container string, t *corev1.ContainerStateTerminated) limitEvent {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s", pod.UID, t.ContainerID, t.Reason)
	// A name has at most 253 bytes (a DNS subdomain), as that of the pod may have.
	name := fmt.Sprintf("%s.%016x", strings.TrimRight(pod.Name[:min(len(pod.Name), 200)], ".-"), h.Sum64())
	message := fmt.Sprintf("Container %s was ended: %s", container, t.Message)
	message = strings.ToValidUTF8(message[:min(len(message), maxMessageBytes)], "")
	body := applycorev1.Event(name, pod.Namespace).
		WithInvolvedObject(applycorev1.ObjectReference().
			WithAPIVersion("v1").WithKind("Pod").WithNamespace(pod.Namespace).WithName(pod.Name).WithUID(pod.UID).
			WithFieldPath(fmt.Sprintf("spec.containers{%s}", container))).
		WithType(corev1.EventTypeWarning).WithReason(t.Reason).WithMessage(message).
		WithSource(applycorev1.EventSource().WithComponent(inventory.Owner).WithHost(pod.Spec.NodeName)).
		WithReportingController(inventory.Owner).
		WithFirstTimestamp(t.FinishedAt).WithLastTimestamp(t.FinishedAt).WithCount(1)
	return limitEvent{name, t.FinishedAt.Time, body}
}
