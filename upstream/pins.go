// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package upstream pins the programs of other projects that are built here
// unmodified. Programs are pinned by the tool lines of go.mod; this file pins
// what is compiled as a test binary (`go test -c`), which a tool line cannot
// name: critest, and the integration tests of Microsoft's own HNS binding.
package upstream

import (
	_ "github.com/Microsoft/hnslib/hcn"     // its tests, with the tags integration…
	_ "sigs.k8s.io/cri-tools/pkg/benchmark" // critest -benchmark
	_ "sigs.k8s.io/cri-tools/pkg/framework" //
	_ "sigs.k8s.io/cri-tools/pkg/validate"  // critest
)
