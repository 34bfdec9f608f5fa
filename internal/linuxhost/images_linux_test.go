// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"fmt"
	"testing"
)

// TestParseImages reads what ctr of containerd 2.4.2 prints.
func TestParseImages(t *testing.T) {
	const table = `time="2026-11-22T17:31:52Z" level=warning msg="DEPRECATION: the support for 1.2 MiB"
REF                       TYPE                                    DIGEST      SIZE      PLATFORMS   LABELS
docker.io/mullion/pause:1 application/vnd.oci.image.index.v1+json sha256:5385 635.4 KiB linux/amd64 io.cri=managed
sha256:1f222e             application/vnd.oci.image.index.v1+json sha256:5385 635.4 KiB linux/amd64 io.cri=managed
docker.io/a/b@sha256:1f22 application/vnd.oci.image.index.v1+json sha256:5385 2.0 GiB   linux/amd64 -
docker.io/a/b:2           application/vnd.oci.image.index.v1+json sha256:5386 2.0 GiB   linux/amd64,linux/arm64 -
`
	got := fmt.Sprint(parseImages(table))
	want := "[{[docker.io/mullion/pause:1] linux amd64  650649 false false} " +
		"{[docker.io/a/b:2] linux amd64  2147483648 false false}]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
