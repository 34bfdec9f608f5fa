// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
)

// TestEarlyRequests: a server that starts again refuses no client who has a role, also before it is ready.
func TestEarlyRequests(t *testing.T) {
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Ready()
	for range 5 {
		s.Kill()
		s.Start()
		admin := s.Admin()
		for {
			_, err := admin.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
			if err == nil {
				break
			}
			if apierrors.IsForbidden(err) || t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		s.Ready()
	}
}
