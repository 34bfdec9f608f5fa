// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winver

import (
	"regexp"
	"strings"
	"sync"
)

// tagPattern finds the base release that derived images put into their tags:
// "4.8-windowsservercore-ltsc2022", "lts-nanoserver-1809", "ltsc2022-amd64",
// "10.0.20348.2402". A number must stand alone, so that "11909" or "v2004.1"
// does not match. It is compiled when it is first needed: most programs that link
// this package never do.
var tagPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[-_.]|servercore|nanoserver|windows)(ltsc20(?:16|19|22|25)|sac2016|1709|1803|` +
		`windows20(?:16|19|22|25)|1809|1903|1909|2004|20h2|10\.0\.\d{5}(?:\.\d+)?)(?:$|[-_])`)
})

// FromTag infers a build from an image reference's tag. The confidence is low:
// only the image's own os.version is authoritative.
func FromTag(ref string) (Build, bool) {
	if i := strings.IndexByte(ref, '@'); i >= 0 {
		ref = ref[:i]
	}
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		ref = ref[i+1:]
	}
	_, tag, ok := strings.Cut(ref, ":")
	if !ok {
		return Build{}, false
	}
	m := tagPattern().FindStringSubmatch(tag)
	if m == nil {
		return Build{}, false
	}
	b, err := Parse(m[1])
	return b, err == nil
}
