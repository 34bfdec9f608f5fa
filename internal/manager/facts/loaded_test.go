// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry"
)

func recorded(t testing.TB, client kubernetes.Interface) map[string]string {
	t.Helper()
	cm, err := client.CoreV1().ConfigMaps(inventory.Namespace).Get(t.Context(), inventory.LoadedImages,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm.Data
}

func images(data map[string]string) map[string]policy.Image {
	return loadedImages(&corev1.ConfigMap{Data: data})
}

func TestRecordLoaded(t *testing.T) {
	client := newClient()
	record := func(l ...Loaded) {
		t.Helper()
		if err := RecordLoaded(t.Context(), client, "", l); err != nil {
			t.Fatal(err)
		}
	}
	w19 := Loaded{Reference: "docker.io/library/shop:1", OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.1"}
	w22 := Loaded{Reference: "shop:1", OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.1"}
	other := Loaded{Reference: "registry.example.com:5000/a/b@sha256:" + strings.Repeat("0", 64), OS: "windows"}

	record()
	record(w19, w22)
	want := map[string]policy.Image{"docker.io/library/shop:1": {Index: true,
		Platforms: []policy.Platform{{OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.1"},
			{OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.1"}}}}
	got := images(recorded(t, client))
	slices.SortFunc(got["docker.io/library/shop:1"].Platforms, func(a, b policy.Platform) int {
		return strings.Compare(a.OSVersion, b.OSVersion)
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("two hosts (-want +got):\n%s", d)
	}
	first := recorded(t, client)
	record(w19, w22)
	if d := cmp.Diff(first, recorded(t, client)); d != "" {
		t.Errorf("the same again:\n%s", d)
	}
	record(w22, other) // the tag was moved
	got = images(recorded(t, client))
	if len(got) != 2 || len(got["docker.io/library/shop:1"].Platforms) != 1 ||
		got["docker.io/library/shop:1"].Platforms[0].OSVersion != "10.0.20348.1" {
		t.Errorf("%+v", got)
	}
	for key := range recorded(t, client) {
		if errs := validation.IsConfigMapKey(key); len(errs) > 0 {
			t.Errorf("key %q: %v", key, errs)
		}
	}
}

func TestRecordLoadedRefuses(t *testing.T) {
	for _, l := range []Loaded{{}, {Reference: "x"}, {Reference: "NOT", OS: "windows"},
		{Reference: "x", OS: "win\ndows"}, {Reference: "x", OS: "windows", OSVersion: strings.Repeat("1", 100)}} {
		if err := RecordLoaded(t.Context(), newClient(), "", []Loaded{l}); err == nil {
			t.Errorf("%+v: no error", l)
		}
	}
}

// TestRecordLoadedAtOnce: another `mullion load` wrote meanwhile; no record is
// lost.
func TestRecordLoadedAtOnce(t *testing.T) {
	client := newClient()
	if err := RecordLoaded(t.Context(), client, "", []Loaded{{Reference: "x:1", OS: "windows"}}); err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts++; conflicts == 1 {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"},
				inventory.LoadedImages, nil)
		}
		return false, nil, nil
	})
	if err := RecordLoaded(t.Context(), client, "", []Loaded{{Reference: "x:2", OS: "windows"}}); err != nil {
		t.Fatal(err)
	}
	if got := recorded(t, client); len(got) != 2 || conflicts != 2 {
		t.Errorf("%v after %d attempts", got, conflicts)
	}
}

// TestLoadedIsBounded: the oldest records go, and the ConfigMap stays below the
// 1 MiB that it may have.
func TestLoadedIsBounded(t *testing.T) {
	have := map[string]string{}
	for i := range maxLoaded {
		l := Loaded{Reference: fmt.Sprintf("docker.io/%s/%s:%d", strings.Repeat("a", 100), strings.Repeat("b", 120), i),
			OS: "windows", Since: fmt.Sprintf("2026-01-01T00:%02d:%02dZ", i/60, i%60)}
		raw, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		have[l.key()] = string(raw)
	}
	have["garbage"] = "{"
	data, changed := mergeLoaded(have,
		[]Loaded{{Reference: "docker.io/library/new:1", OS: "windows", Since: "2026-02-01T00:00:00Z"}})
	if !changed || len(data) != maxLoaded || len(images(data)) != maxLoaded {
		t.Fatalf("changed %v, %d records", changed, len(data))
	}
	all := images(data)
	if _, ok := all["docker.io/library/new:1"]; !ok {
		t.Error("the new record is not there")
	}
	size := 0
	for k, v := range data {
		size += len(k) + len(v)
		if strings.Contains(v, "2026-01-01T00:00:00Z") {
			t.Error("the oldest record is still there")
		}
	}
	if size > 1<<20 {
		t.Errorf("%d bytes", size)
	}
}

func FuzzLoaded(f *testing.F) {
	f.Add("k", `{"reference":"docker.io/library/x:1","os":"windows","arch":"amd64","osVersion":"10.0.17763.1"}`)
	f.Add("k", `{"reference":"x","os":"\u001b"}`)
	f.Add("", `[]`)
	f.Fuzz(func(t *testing.T, key, value string) {
		for ref, i := range images(map[string]string{key: value}) {
			if again, err := registry.Normalise(ref); err != nil || again != ref {
				t.Errorf("reference %q", ref)
			}
			for _, p := range i.Platforms {
				odd := func(r rune) bool { return r <= ' ' || r >= 0x7f }
				if text := p.OS + p.Arch + p.OSVersion; len(text) > 128 || strings.ContainsFunc(text, odd) {
					t.Errorf("platform %q", p)
				}
			}
		}
		data, _ := mergeLoaded(map[string]string{key: value}, nil)
		if again, changed := mergeLoaded(data, nil); changed || !maps.Equal(again, data) {
			t.Errorf("%v became %v", data, again)
		}
	})
}
