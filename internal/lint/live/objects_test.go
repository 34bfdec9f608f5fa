// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package live

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

// cluster is a client of a cluster that holds the objects.
func cluster(t *testing.T, objects ...string) *fake.FakeDynamicClient {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{}
	for _, r := range resources() {
		kinds[r.GroupVersionResource] = r.Resource + "List"
	}
	var list []runtime.Object
	for _, text := range objects {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		list = append(list, &unstructured.Unstructured{Object: tree})
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, list...)
}

func names(t *testing.T, client *fake.FakeDynamicClient, namespace string) (out, notes []string) {
	t.Helper()
	notes, err := Objects(t.Context(), client, namespace, func(o map[string]any) error {
		u := unstructured.Unstructured{Object: o}
		out = append(out, u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, notes
}

func objects() []string {
	return []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}`,
		`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, namespace: shop, ownerReferences: ` +
			`[{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: bare, namespace: shop}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: done, namespace: shop}, status: {phase: Succeeded}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-flannel-cfg, namespace: kube-flannel}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}`,
		`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: windows-2022}, handler: ` +
			`runhcs-wcow-process}`,
	}
}

func TestObjects(t *testing.T) {
	client := cluster(t, objects()...)
	got, notes := names(t, client, "")
	want := []string{"Namespace /shop", "RuntimeClass /windows-2022", "Deployment shop/web", "Pod shop/bare",
		"Service default/kubernetes", "Service shop/web", "ConfigMap kube-flannel/kube-flannel-cfg"}
	if !slices.Equal(got, want) || len(notes) > 0 {
		t.Errorf("read %q %q, want %q", got, notes, want)
	}
	got, _ = names(t, client, "shop")
	if want := []string{"Deployment shop/web", "Pod shop/bare", "Service shop/web"}; !slices.Equal(got, want) {
		t.Errorf("of one namespace %q, want %q", got, want)
	}
}

// TestForbidden: what may not be read is named; the rest is read. A custom
// resource that is not installed is nothing to speak of.
func TestForbidden(t *testing.T) {
	client := cluster(t, objects()...)
	client.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("no"))
	})
	client.PrependReactor("list", "gmsacredentialspecs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "gmsacredentialspecs"}, "")
	})
	got, notes := names(t, client, "")
	if slices.Contains(got, "Service shop/web") || !slices.Contains(got, "Pod shop/bare") || len(notes) != 1 ||
		!strings.Contains(notes[0], "services are not known") {
		t.Errorf("read %q, notes %q", got, notes)
	}
}

func TestErrorsStop(t *testing.T) {
	full := errors.New("disk full")
	_, err := Objects(t.Context(), cluster(t, objects()...), "", func(map[string]any) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	client := cluster(t)
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, fmt.Errorf("connection refused")
	})
	if _, err := Objects(t.Context(), client, "", nil); err == nil ||
		!strings.Contains(err.Error(), "read pods: connection refused") {
		t.Errorf("got %v", err)
	}
}

// TestPages reads a second page.
func TestPages(t *testing.T) {
	client := cluster(t)
	asked := 0
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		page := &unstructured.UnstructuredList{Object: map[string]any{"kind": "podsList", "apiVersion": "v1"}}
		page.Items = []unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": fmt.Sprint("p", asked)}}}}
		if asked == 1 {
			page.SetContinue("more")
		}
		return true, page, nil
	})
	if got, _ := names(t, client, ""); !slices.Equal(got, []string{"Pod /p1", "Pod /p2"}) {
		t.Errorf("read %q", got)
	}
}
