// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Print writes objects in a form that kubectl reads: format is yaml (one
// document per object) or json (a List).
func Print(w io.Writer, format string, objects []*unstructured.Unstructured) error {
	if format == "json" {
		list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	for i, o := range objects {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("write %s: %w", describe(o), err)
		}
		if i > 0 {
			data = append([]byte("---\n"), data...)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// describe returns the name of an object for users: "Deployment
// mullion-system/mullion-manager".
func describe(o *unstructured.Unstructured) string {
	if ns := o.GetNamespace(); ns != "" {
		return o.GetKind() + " " + ns + "/" + o.GetName()
	}
	return o.GetKind() + " " + o.GetName()
}
