// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winver

// firstDual is the build of the first release whose HNS has two address families: version 2004, with HNS 11.10 (hnslib
// v0.1.2, hcn/hcnglobals.go, IPv6DualStackVersion).
const firstDual = 19041

// TwoFamilies reports whether nodes of a version, "10.0.20348", can have Services and pods of IPv4 and of IPv6.
func TwoFamilies(osVersion string) bool {
	v, err := ParseOSVersion(osVersion)
	return err == nil && v.Build >= firstDual
}
