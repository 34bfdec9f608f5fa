// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runtimeclass

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// guide is the RuntimeClass of the guide for running Windows containers, as a
// user would create it.
func guide(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "guide.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func asTree(t *testing.T, c *nodev1.RuntimeClass) map[string]any {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func request(operation string, object, old map[string]any) *webhook.Request {
	r := &webhook.Request{Operation: operation, Name: "windows-2019", Object: object, OldObject: old}
	r.Kind.Kind = "RuntimeClass"
	return r
}

func TestClaimByCreation(t *testing.T) {
	mine := class2019(func(c *nodev1.RuntimeClass) {})
	foreign := class2019(func(c *nodev1.RuntimeClass) { c.Labels = nil })
	other := guide(t)
	other["metadata"].(map[string]any)["name"] = "other"
	dry := request(webhook.Create, guide(t), nil)
	dry.DryRun = true
	for name, tt := range map[string]struct {
		there   *nodev1.RuntimeClass
		r       *webhook.Request
		without bool // no client
		gone    bool
	}{
		"ours gives way":        {mine, request(webhook.Create, guide(t), nil), false, true},
		"a user's does not":     {foreign, request(webhook.Create, guide(t), nil), false, false},
		"another name":          {mine, request(webhook.Create, other, nil), false, false},
		"our own creation":      {mine, request(webhook.Create, asTree(t, mine), nil), false, false},
		"dry run":               {mine, dry, false, false},
		"anyone could ask":      {mine, request(webhook.Create, guide(t), nil), true, false},
		"an object without all": {mine, request(webhook.Create, nil, nil), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(tt.there)
			h := Claim(client, slog.New(slog.DiscardHandler))
			if tt.without {
				h = Claim(nil, slog.New(slog.DiscardHandler))
			}
			resp, err := h(t.Context(), tt.r)
			if err != nil || !resp.Allowed || resp.Edits != nil {
				t.Fatalf("%+v, %v", resp, err)
			}
			left, err := client.NodeV1().RuntimeClasses().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if gone := len(left.Items) == 0; gone != tt.gone || gone != (len(resp.Warnings) == 1) {
				t.Errorf("gone %t, warnings %q", gone, resp.Warnings)
			}
		})
	}
}

func TestClaimByUpdate(t *testing.T) {
	mine := asTree(t, class2019(func(c *nodev1.RuntimeClass) {}))
	applied := guide(t)
	applied["metadata"] = mine["metadata"]
	resp, err := Claim(nil, slog.New(slog.DiscardHandler))(t.Context(), request(webhook.Update, applied, mine))
	if err != nil {
		t.Fatal(err)
	}
	_, ops, err := tree.Apply(applied, resp.Edits)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"op":"replace","path":"/handler","value":"runhcs-wcow-process"},{"op":"remove",` +
		`"path":"/metadata/labels"},` +
		`{"op":"add","path":"/metadata/annotations",` +
		`"value":{"mullion.dev/wanted-handler":"example-container-runtime-handler"}}]`; string(patch) != want {
		t.Errorf("patch %s", patch)
	}
	if len(resp.Warnings) != 1 || !strings.Contains(resp.Warnings[0], "it is yours now") {
		t.Errorf("warnings %q", resp.Warnings)
	}
	// The same once more: the class is the user's, and has the annotation.
	theirs := guide(t)
	theirs["handler"] = Handler
	theirs["metadata"].(map[string]any)["annotations"] = map[string]any{
		wantedAnnotation: "example-container-runtime-handler"}
	second := guide(t)
	second["metadata"] = theirs["metadata"]
	resp, err = Claim(nil, slog.New(slog.DiscardHandler))(t.Context(), request(webhook.Update, second, theirs))
	if err != nil || len(resp.Warnings) != 1 || len(resp.Edits) == 0 || resp.Edits[0].Value != Handler {
		t.Errorf("the second time: %+v, %v", resp, err)
	}
	foreign := guide(t)
	for name, r := range map[string]*webhook.Request{
		"no other handler": request(webhook.Update, mine, mine),
		"a user's":         request(webhook.Update, mine, foreign),
		"no objects":       request(webhook.Update, nil, nil),
	} {
		if resp, err := Claim(nil, slog.New(slog.DiscardHandler))(t.Context(), r); err != nil || !resp.Allowed ||
			resp.Edits != nil || resp.Warnings != nil {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
	}
}
