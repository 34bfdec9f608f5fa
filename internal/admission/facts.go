// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission

import (
	"context"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// Facts tells what the rules need to know beside the object.
//
// It must answer before the context's deadline, with what it knows by then;
// one that does not is not waited for. It may be called concurrently, and must
// not change the object.
type Facts interface {
	// Facts returns what is known for judging object, which is (to be) in
	// namespace. The warnings are for people: kubectl prints them ("registry X
	// does not answer: the image's build is not known").
	Facts(ctx context.Context, namespace string, object map[string]any) (facts policy.Facts, warnings []string)
}
