// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"

	"github.com/mullion-k8s/mullion/internal/hns/native"
)

func (system) HNSCall(ctx context.Context, method, path string) (string, error) {
	return native.New().Call(ctx, method, path, "")
}
