// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package podlimit

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func ended(id, reason, message string, at time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ContainerID: id, Reason: reason, Message: message, FinishedAt: metav1.NewTime(at), ExitCode: 137,
	}}
}

func bomb(states ...corev1.ContainerState) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bomb", UID: "u1"}}
	c := corev1.ContainerStatus{Name: "main"}
	if len(states) > 0 {
		c.State = states[0]
	}
	if len(states) > 1 {
		c.LastTerminationState = states[1]
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{c}
	return p
}

func TestEvents(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"running":                    {bomb(), nil},
		"completed":                  {bomb(ended("a", "Completed", "", at)), nil},
		"an error of its own":        {bomb(ended("a", "Error", "panic: OOMKilled", at)), nil},
		"of a runtime without words": {bomb(ended("a", "OOMKilled", "", at)), nil},
		"memory": {bomb(ended("a", "OOMKilled", "Too much.", at)), []string{
			"OOMKilled: Container main was ended: Too much.",
		}},
		"two ends": {bomb(
			ended("b", "DiskLimitExceeded", "Full.", at),
			ended("a", "ProcessLimitExceeded", "Many.", at),
		), []string{
			"ProcessLimitExceeded: Container main was ended: Many.",
			"DiskLimitExceeded: Container main was ended: Full.",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range events(tt.pod) {
				got = append(got, *e.Body.Reason+": "+*e.Body.Message)
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	long := bomb(ended("a", "OOMKilled", strings.Repeat("ü", 2000), at))
	long.Name = strings.Repeat("a", 253)
	e := events(long)[0]
	if len(*e.Body.Message) > maxMessageBytes || len(e.Name) > 253 || e.Name != events(long)[0].Name {
		t.Errorf("message of %d bytes, name of %d", len(*e.Body.Message), len(e.Name))
	}
}

// TestController: each end is told once, also after a restart of the controller, and an
// old one not at all.
func TestController(t *testing.T) {
	now := time.Now()
	client := fake.NewClientset(
		bomb(ended("new", "OOMKilled", "Too much.", now), ended("old", "OOMKilled", "Too much.", now.Add(-2*maxAge))))
	for range 2 {
		c := New(client, slog.New(slog.DiscardHandler))
		done := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- c.Run(ctx) }()
		testenv.Eventually(t, "the event", func() error {
			want := events(bomb(ended("new", "OOMKilled", "Too much.", now)))[0]
			_, err := client.CoreV1().Events("ns").Get(t.Context(), want.Name, metav1.GetOptions{})
			return err
		})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	list, err := client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d events, %v", len(list.Items), err)
	}
}
