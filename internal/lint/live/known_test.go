// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package live

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/policy"
)

func named(kind, namespace, name string) runtime.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

func TestKnown(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, named("ServiceAccount", "a", "web"),
		named("ServiceAccount", "b", "web"))
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
	})
	known, notes, err := Known(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Known{"ServiceAccount": {"web": {"a", "b"}}, "PriorityClass": {}, "ConfigMap": {}, "Namespace": {},
		"PersistentVolumeClaim": {}}
	if d := cmp.Diff(want, known); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(notes) != 1 {
		t.Errorf("notes %q, want one about secrets", notes)
	}

	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("it is gone")
	})
	if _, _, err := Known(t.Context(), client); err == nil {
		t.Error("no error")
	}
}
