// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry"
)

// Read reads the facts of a Source once from a cluster, without querying
// registries. Facts that it may not read stay unknown, with a note:
// "RuntimeClasses are not known: …". It is an error if the API server does not
// answer. Images are known by every usual spelling of their names.
func Read(ctx context.Context, client kubernetes.Interface) (facts policy.Facts, notes []string, err error) {
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return policy.Facts{}, nil, fmt.Errorf("read the version of the API server: %w", err)
	}
	if facts.Kubernetes, err = policy.ParseVersion(v.GitVersion); err != nil {
		notes = append(notes, fmt.Sprintf("the version is not known: %v", err))
	}
	for _, part := range []struct {
		name string
		read func(context.Context, kubernetes.Interface, *policy.Facts) error
	}{
		{"nodes", readNodes}, {"RuntimeClasses", readClasses}, {"namespaces", readSpaces},
		{"loaded images", readLoaded},
	} {
		switch err := part.read(ctx, client, &facts); {
		case err == nil:
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("%s are not known: %v", part.name, err))
		default:
			return policy.Facts{}, nil, fmt.Errorf("read %s: %w", part.name, err)
		}
	}
	return facts, notes, nil
}

// pageSize bounds one answer of the API server; kubectl uses the same.
const pageSize = 500

// pages lists all of a kind, a page at a time, as of one moment.
func pages(list func(metav1.ListOptions) (next string, err error)) error {
	o := metav1.ListOptions{Limit: pageSize}
	for {
		next, err := list(o)
		if err != nil || next == "" {
			return err
		}
		o.Continue = next
	}
}

func readNodes(ctx context.Context, client kubernetes.Interface, f *policy.Facts) error {
	all := newNodes()
	err := pages(func(o metav1.ListOptions) (string, error) {
		list, err := client.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			all.set(&list.Items[i])
		}
		return list.Continue, nil
	})
	if err != nil {
		return err
	}
	f.Nodes, f.Platform = all.all()
	for ref := range all.present {
		for _, name := range registry.Spellings(ref) {
			set(&f.PresentImages, name, all.present.oses(ref))
		}
	}
	return nil
}

func readClasses(ctx context.Context, client kubernetes.Interface, f *policy.Facts) error {
	all := map[string]policy.RuntimeClass{}
	err := pages(func(o metav1.ListOptions) (string, error) {
		list, err := client.NodeV1().RuntimeClasses().List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			all[list.Items[i].Name] = describeClass(&list.Items[i])
		}
		return list.Continue, nil
	})
	if err == nil {
		f.RuntimeClasses = all
	}
	return err
}

func readSpaces(ctx context.Context, client kubernetes.Interface, f *policy.Facts) error {
	return pages(func(o metav1.ListOptions) (string, error) {
		list, err := client.CoreV1().Namespaces().List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			set(&f.Namespaces, list.Items[i].Name, describeSpace(&list.Items[i]))
		}
		return list.Continue, nil
	})
}

func readLoaded(ctx context.Context, client kubernetes.Interface, f *policy.Facts) error {
	cm, err := client.CoreV1().ConfigMaps(inventory.Namespace).Get(ctx, inventory.LoadedImages, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for ref, image := range loadedImages(cm) {
		for _, name := range registry.Spellings(ref) {
			set(&f.Images, name, image)
		}
	}
	return nil
}
