// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry"
)

const (
	// maxLoaded bounds the records: with at most 1 kB each they stay below the
	// 1 MiB that a ConfigMap may have. The oldest is dropped first.
	maxLoaded = 500
	// maxLoadedValue bounds one record, in bytes: a reference has at most 255
	// bytes of name, 128 of tag or 135 of digest.
	maxLoadedValue = 1000
)

// Loaded is one image on hosts: a value of the ConfigMap, as JSON.
type Loaded struct {
	Reference string `json:"reference"` // as container runtimes spell it
	OS        string `json:"os"`
	Arch      string `json:"arch,omitempty"`
	OSVersion string `json:"osVersion,omitempty"`
	Since     string `json:"since,omitempty"` // RFC 3339: when it was first recorded so
}

// key names a record; its suffix distinguishes references that sanitising makes
// equal, and the platforms of one reference.
func (l Loaded) key() string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '_'
	}, l.Reference)
	sum := sha256.Sum256([]byte(strings.Join([]string{l.Reference, l.OS, l.Arch, l.OSVersion}, "\n")))
	return name[:min(len(name), 200)] + "." + hex.EncodeToString(sum[:4]) // a key has at most 253 bytes
}

// decodeLoaded reads one record; ok is false for any other text.
func decodeLoaded(value string) (l Loaded, ok bool) {
	if len(value) > maxLoadedValue || json.Unmarshal([]byte(value), &l) != nil {
		return Loaded{}, false
	}
	ref, err := registry.Normalise(l.Reference)
	l.Reference = ref
	return l, err == nil && policy.Platform{OS: l.OS, Arch: l.Arch, OSVersion: l.OSVersion}.Plausible()
}

// loadedImages are the images of the ConfigMap by their normalised references.
func loadedImages(cm *corev1.ConfigMap) map[string]policy.Image {
	out := map[string]policy.Image{}
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		l, ok := decodeLoaded(cm.Data[key])
		if !ok || len(out) == maxLoaded {
			continue
		}
		i := out[l.Reference]
		i.Platforms = append(i.Platforms, policy.Platform{OS: l.OS, Arch: l.Arch, OSVersion: l.OSVersion})
		i.Index = len(i.Platforms) > 1
		out[l.Reference] = i
	}
	return out
}

// RecordLoaded notes images that were loaded onto hosts, so that pods with them
// are recognised although their names don't show the platform and no registry
// has them. Earlier records of the same references are replaced. The namespace
// belongs to an installation; "" means the default. It is created if it does
// not exist.
func RecordLoaded(ctx context.Context, client kubernetes.Interface, namespace string, images []Loaded) error {
	namespace = cmp.Or(namespace, inventory.Namespace)
	now := time.Now().UTC().Format(time.RFC3339)
	var add []Loaded
	for _, l := range images {
		value, err := json.Marshal(l)
		if err != nil {
			return fmt.Errorf("record loaded image %q: %w", l.Reference, err)
		}
		l, ok := decodeLoaded(string(value))
		if !ok {
			return fmt.Errorf("record loaded image %.256q (%.32s %.32s %.64s): not a reference and a platform",
				l.Reference, l.OS, l.Arch, l.OSVersion)
		}
		l.Since = cmp.Or(l.Since, now)
		add = append(add, l)
	}
	if len(add) == 0 {
		return nil
	}
	// A conflict is another `mullion load` at the same time; so is a ConfigMap or
	// namespace that comes into being meanwhile.
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultBackoff, again, func() error { return writeLoaded(ctx, client, namespace, add) })
	if err != nil {
		return fmt.Errorf("record loaded images in %s/%s: %w", namespace, inventory.LoadedImages, err)
	}
	return nil
}

func writeLoaded(ctx context.Context, client kubernetes.Interface, namespace string, add []Loaded) error {
	configs := client.CoreV1().ConfigMaps(namespace)
	current, err := configs.Get(ctx, inventory.LoadedImages, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return err
		}
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: inventory.LoadedImages, Namespace: namespace}}
		made.Data, _ = mergeLoaded(nil, add)
		_, err = configs.Create(ctx, made, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	data, changed := mergeLoaded(current.Data, add)
	if !changed {
		return nil
	}
	current.Data = data
	_, err = configs.Update(ctx, current, metav1.UpdateOptions{})
	return err
}

// mergeLoaded replaces the records of the added references, drops invalid
// records, and the oldest records beyond the limit.
func mergeLoaded(have map[string]string, add []Loaded) (data map[string]string, changed bool) {
	records := map[string]Loaded{}
	for key, value := range have {
		l, ok := decodeLoaded(value)
		if ok && key == l.key() &&
			!slices.ContainsFunc(add, func(a Loaded) bool { return a.Reference == l.Reference }) {
			records[key] = l
		}
	}
	for _, l := range add {
		if old, ok := decodeLoaded(have[l.key()]); ok && old.Since != "" {
			l.Since = old.Since
		}
		records[l.key()] = l
	}
	keys := slices.Collect(maps.Keys(records))
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(strings.Compare(records[b].Since, records[a].Since), strings.Compare(a, b))
	})
	data = map[string]string{}
	for _, key := range keys[:min(len(keys), maxLoaded)] {
		value, err := json.Marshal(records[key])
		if err != nil || len(value) > maxLoadedValue {
			continue // cannot be: it was decoded from less
		}
		data[key] = string(value)
	}
	return data, !maps.Equal(have, data)
}
