// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winver describes the builds of Windows Server that have ever hosted
// containers: their names, numbers, image tags and support dates, and which
// image a host of a given build can run with process isolation.
//
// It is data and pure functions only; it works on every operating system and
// does not query the machine.
package winver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Date is a calendar day as ISO 8601 writes it, "2029-01-09"; empty if unknown.
// Dates compare as strings.
type Date string

// Build is one release of Windows Server.
type Build struct {
	Number int // the third number of 10.0.17763.7919, which decides compatibility
	UBR    int // the fourth, "update build revision": of a recent cumulative update, or as parsed

	Product     string // the marketing name: "Windows Server 2019"
	ProductName string // registry value ProductName, and so nodeInfo.osImage: "Windows Server 2019 Datacenter"
	Version     string // registry values ReleaseId or DisplayVersion: "1809", "21H2"
	Branch      string // source branch in BuildLabEx: "rs5_release"

	Tags     []string // tags of Microsoft's base images, the most usual first
	Aliases  []string // other names that Parse accepts
	LTSC     bool     // long-term servicing channel
	HostOnly bool     // without its own base images

	Available     Date
	MainstreamEnd Date
	ExtendedEnd   Date // empty where there is no extended support
}

// OSVersion returns the four numbers as image manifests write them,
// "10.0.17763.7919".
func (b Build) OSVersion() string { return fmt.Sprintf("10.0.%d.%d", b.Number, b.UBR) }

// Label returns the value of the node label node.kubernetes.io/windows-build,
// "10.0.17763".
func (b Build) Label() string { return fmt.Sprintf("10.0.%d", b.Number) }

// String returns the product and the build: "Windows Server 2019 10.0.17763".
func (b Build) String() string { return b.Product + " " + b.Label() }

// EndOfLife returns the day on which the last support of any kind ends; empty if it
// is not published.
func (b Build) EndOfLife() Date { return max(b.MainstreamEnd, b.ExtendedEnd) }

// WithUBR returns the build with another revision.
func (b Build) WithUBR(ubr int) Build {
	b.UBR = ubr
	return b
}

// Find returns the release with the given build number.
func Find(number int) (Build, bool) {
	for _, b := range table() {
		if b.Number == number {
			return b, true
		}
	}
	return Build{}, false
}

// Parse understands every usual spelling of a release: the year ("2019"), an
// image tag ("ltsc2019", "1809"), the number ("17763"), three or four numbers
// ("10.0.17763", "10.0.17763.7919"; the fourth becomes UBR) and the product's
// name ("Windows Server 2019 Datacenter"). Case does not matter.
func Parse(s string) (Build, error) {
	in := strings.ToLower(strings.TrimSpace(s))
	if b, ok := byName()[in]; ok {
		return b, nil
	}
	if v, err := ParseOSVersion(in); err == nil && v.Major == 10 && v.Minor == 0 {
		if b, ok := Find(v.Build); ok {
			if v.HasUBR {
				b.UBR = v.UBR
			}
			return b, nil
		}
	}
	return Build{}, fmt.Errorf("parse Windows build %q: unknown; known are %s", s, strings.Join(names(), ", "))
}

// byName are the releases by every name, in lower case. The first in the table
// has a name that two share.
var byName = sync.OnceValue(func() map[string]Build {
	out := map[string]Build{}
	for _, b := range table() {
		all := slices.Concat([]string{strconv.Itoa(b.Number)}, b.Tags, b.Aliases, []string{b.Product, b.Version})
		// Semi-annual releases share one ProductName, so it names only the others.
		if b.LTSC {
			all = append(all, b.ProductName)
		}
		for _, name := range all {
			if name = strings.ToLower(name); name != "" && out[name].Number == 0 {
				out[name] = b
			}
		}
	}
	return out
})

// names lists the shortest spelling of every release, for messages.
func names() []string {
	var out []string
	for _, b := range table() {
		if b.LTSC {
			out = append(out, strings.TrimPrefix(b.Product, "Windows Server "))
			continue
		}
		out = append(out, b.Version)
	}
	return out
}

// OSVersion is a parsed os.version of an image or of a host.
type OSVersion struct {
	Major, Minor, Build, UBR int
	HasUBR                   bool // whether a fourth number was given
}

// ParseOSVersion reads "10.0.17763" or "10.0.17763.7919". More numbers than
// four are an error, as are signs and blanks.
func ParseOSVersion(s string) (OSVersion, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 && len(parts) != 4 {
		return OSVersion{}, fmt.Errorf("parse os.version %q: want three or four numbers", s)
	}
	var n [4]int
	for i, p := range parts {
		// 31 bits: the most that a DWORD of the registry and an int of any platform
		// both hold.
		v, err := strconv.ParseUint(p, 10, 31)
		if err != nil {
			return OSVersion{}, fmt.Errorf("parse os.version %q: %w", s, err)
		}
		n[i] = int(v)
	}
	return OSVersion{n[0], n[1], n[2], n[3], len(parts) == 4}, nil
}
