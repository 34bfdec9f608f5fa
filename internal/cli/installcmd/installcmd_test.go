// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package installcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/install"
)

// TestHints: what can be done is said with every error that has a name.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		err  error
		code cli.Code
		hint string
	}{
		{fmt.Errorf("%w: refused", install.ErrUnreachable), cli.Environment, "--kubeconfig"},
		{&install.TooOldError{Version: "v1.29.0"}, cli.Environment, "upgrade"},
		{&install.ElsewhereError{Namespace: "other"}, cli.Unhealthy, "--namespace other"},
		{&install.BuiltInError{URL: "https://127.0.0.1:9443"}, cli.Unhealthy, "--no-admission"},
		{&install.HelmError{Object: "ClusterRole x", Release: "r"}, cli.Unhealthy, "helm uninstall r"},
		{&install.AuthoritiesError{Namespace: "n", Name: "ca", Problem: "does not exist"}, cli.Unhealthy,
			"create configmap ca --namespace n"},
		{install.ConflictError{{Object: "Deployment d", Field: ".spec.replicas", Manager: "hpa"}}, cli.Unhealthy,
			"--force-conflicts"},
		{&install.StuckError{Object: "Pod p", Reason: "ImagePullBackOff"}, cli.Unhealthy, "--image"},
		{fmt.Errorf("wait for the managers: %w", context.DeadlineExceeded), cli.Unhealthy, "--timeout"},
	} {
		var f *cli.Failure
		err := explain(fmt.Errorf("outside: %w", c.err))
		if !errors.As(err, &f) || f.Code != c.code || !strings.Contains(f.Hint, c.hint) {
			t.Errorf("%v: %+v, want code %d and %q", c.err, f, c.code, c.hint)
		}
	}
	if explain(nil) != nil {
		t.Error("an error out of nothing")
	}
}
