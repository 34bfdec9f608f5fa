// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
)

// applyRetry is the wait between two attempts to write an object: right after
// its first start the API server is still making its namespaces.
const applyRetry = 50 * time.Millisecond

// applyLimit is when something other than the start must be the matter. The
// namespaces are there within a second on two busy processors.
const applyLimit = 30 * time.Second

// restClient is for plain requests to absolute paths.
func restClient(cfg *rest.Config) (*rest.RESTClient, error) {
	cfg.GroupVersion = &schema.GroupVersion{}
	cfg.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	cfg.QPS = -1 // no limit: it is our own server
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// bootstrap writes the objects that the cluster needs before anything else. They are
// applied, not created, so that additions of a newer version arrive and additions of a
// user stay.
func bootstrap(ctx context.Context, cfg *rest.Config, objects []plan.Object) error {
	client, err := restClient(cfg)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := apply(ctx, client, o); err != nil {
			return fmt.Errorf("apply %s: %w", o.Path, err)
		}
	}
	return nil
}

// apply writes one object. It retries for a while, because the API server may not be
// ready for the object yet.
func apply(ctx context.Context, client *rest.RESTClient, o plan.Object) error {
	deadline := time.Now().Add(applyLimit)
	for {
		err := client.Patch(types.ApplyPatchType).AbsPath(o.Path).
			Param("fieldManager", "mullion").Param("force", "true").Body(o.Content).Do(ctx).Error()
		// Such a request will not become right.
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(applyRetry):
		}
	}
}

// failedChecks keeps of a verbose health report the lines that matter.
func failedChecks(report []byte) string {
	var failed []string
	for line := range strings.Lines(string(report)) {
		if strings.HasPrefix(line, "[-]") {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	return strings.Join(failed, "; ")
}
