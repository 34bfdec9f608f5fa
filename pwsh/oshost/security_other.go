// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !windows

package oshost

import "github.com/mullion-k8s/mullion/pwsh/host"

// newSecurity returns nil: only Windows has security descriptors.
func newSecurity() host.FileSecurity { return nil }
