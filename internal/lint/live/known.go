// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package live

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// Known reads the names of the objects that pods refer to, and not their content:
// no content of a Secret leaves the API server. Kinds that it may not read are
// named in notes, and are not in the answer.
func Known(ctx context.Context, client metadata.Interface) (known policy.Known, notes []string, err error) {
	known = policy.Known{}
	for _, r := range []struct {
		kind string
		schema.GroupVersionResource
	}{
		{"Namespace", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}},
		{"ServiceAccount", schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}},
		{"PriorityClass", schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1",
			Resource: "priorityclasses"}},
		{"ConfigMap", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}},
		{"Secret", schema.GroupVersionResource{Version: "v1", Resource: "secrets"}},
		{"PersistentVolumeClaim", schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}},
	} {
		names := map[string][]string{}
		switch err := eachName(ctx, client.Resource(r.GroupVersionResource), names); {
		case err == nil:
			known[r.kind] = names
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("%s are not known: %v", r.Resource, err))
		default:
			return nil, notes, fmt.Errorf("read the names of %s: %w", r.Resource, err)
		}
	}
	return known, notes, nil
}

// eachName adds the namespaces of each name.
func eachName(ctx context.Context, client metadata.Getter, names map[string][]string) error {
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := client.List(ctx, o)
		if err != nil {
			return err
		}
		for i := range page.Items {
			m := &page.Items[i]
			names[m.Name] = append(names[m.Name], m.Namespace)
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}
