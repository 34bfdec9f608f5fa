// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wrap

// dieTogether is a no-op: only Windows services are wrapped. The package builds on Linux
// for its tests.
func dieTogether() error { return nil }
