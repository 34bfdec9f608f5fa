// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import "github.com/mullion-k8s/mullion/internal/hns/schema"

// VersionOf returns the HNS version that the emulator reports for a build of Windows.
//
// Microsoft publishes no table. The values are the newest that the clients'
// sources and reports from real nodes allow for a patched system:
//   - 9.5, Server 2019: hnslib hcn/hcnglobals.go lists back-ported features in the
//     range "9.3 through 10.0 (not included)" (Direct Server Return) and 9.5 (L4
//     proxy); 9.2 is the first with the v2 API.
//   - 10.5, versions 1903 and 1909: the same lists, 10.5 through 11.0.
//   - 11.11, version 2004: 11.10 seen on real nodes, 11.11 is in the lists.
//   - 12.1, version 20H2: the lists.
//   - 13.2, Server 2022: objects of a real node carry 13.3 in their Version; 13.2
//     is the last that a feature is tied to.
//   - 16.0, Server 2025: the first after 15 in hnslib v0.1.2.
//
// Older builds have no v2 API (7.2 is version 1803, hcnglobals.go), and
// kube-proxy v1.36 would refuse to start on them. They get the oldest version
// that has it, so that current programs run on them.
func VersionOf(build int) schema.Version {
	switch {
	case build >= 26100:
		return schema.Version{Major: 16, Minor: 0}
	case build >= 20348:
		return schema.Version{Major: 13, Minor: 2}
	case build >= 19042:
		return schema.Version{Major: 12, Minor: 1}
	case build >= 19041:
		return schema.Version{Major: 11, Minor: 11}
	case build >= 18362:
		return schema.Version{Major: 10, Minor: 5}
	}
	return schema.Version{Major: 9, Minor: 5}
}
