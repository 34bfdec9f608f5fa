// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"log/slog"

	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// serveCRI runs the container runtime.
func serveCRI(context.Context, boot, winver.Build, *emul.Service, *slog.Logger) error {
	return errors.New("there is no container runtime yet")
}
