// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// testPluginsLibrary runs the tests of what win-bridge and win-overlay share. It asks HNS for
// its version: half of the policies need DSR. If the count changes, docs/fidelity/hns.md must.
func testPluginsLibrary(t *testing.T, p *prefixed) {
	exe := buildTest(t, "upstream", "github.com/containernetworking/plugins/pkg/hns", "")
	for _, build := range []int{17763, 20348, 26100} {
		cmd := p.command(t.Context(), serve(t, open(t, emul.VersionOf(build))), exe, "-ginkgo.no-color")
		out, err := testenv.CombinedOutput(t, cmd)
		if want := "20 Passed | 0 Failed | 0 Pending | 0 Skipped"; err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("build %d: %v, want %s\n%s", build, err, want, tail(out))
		}
	}
}

// Counts of kube-proxy's tests for Windows (kubernetes v1.36.3 pkg/proxy/winkernel), which have a
// mock of HNS; upstream itself skips those that would call a real one ("Skipping failing test on
// Windows"). If they change, docs/fidelity/hns.md must.
const (
	winkernelPass = 27
	winkernelSkip = 11
)

// testWinkernel runs kube-proxy's own tests: Wine is Windows enough for it.
func testWinkernel(t *testing.T, p *prefixed) {
	exe := buildTest(t, "upstream", "k8s.io/kubernetes/pkg/proxy/winkernel", "")
	cmd := p.command(t.Context(), serve(t, open(t, emul.VersionOf(20348))), exe, "-test.v")
	out, err := testenv.CombinedOutput(t, cmd)
	got := verdicts(out)
	slices.Sort(got["FAIL"])
	if err != nil || len(got["PASS"]) != winkernelPass || len(got["SKIP"]) != winkernelSkip {
		t.Errorf("%v: pass %d, skip %d, fail %q; want %d and %d\n%s", err, len(got["PASS"]), len(got["SKIP"]),
			got["FAIL"], winkernelPass, winkernelSkip, tail(out))
	}
}
