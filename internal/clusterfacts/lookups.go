// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clusterfacts

import (
	"context"
	"log/slog"

	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// maxPods bounds the pods of one object that questions are asked for.
const maxPods = 16

// Registry says how registries are asked.
type Registry struct {
	// Off: they are not.
	Off bool
	// CertsDir has certificate authorities and client certificates of registries,
	// as containerd's certs.d: ca.crt for all of them; HOST/ca.crt,
	// HOST/client.cert and HOST/client.key for one. "" means the system's.
	CertsDir string
	// Insecure lists registries (host or host:port) that may be asked over plain
	// HTTP. Registries on a loopback address always may.
	Insecure []string
}

type lookups struct{}

func newLookups(client kubernetes.Interface, cfg Registry, log *slog.Logger) *lookups {
	return &lookups{}
}

func (l *lookups) add(ctx context.Context, namespace string, f *policy.Facts, refs []policy.References, unclear [][]string) []string {
	return nil
}

func (l *lookups) close() {}
