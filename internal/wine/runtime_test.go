// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// testCache is shared by the tests of a run, because a prefix takes seconds.
func testRuntime(t testing.TB) *Runtime {
	t.Helper()
	testenv.Need(t, testenv.Wine, testenv.MinGW)
	if _, err := os.Stat(testenv.Bin("native", mendDLL)); err != nil {
		t.Skip("run `make build` first")
	}
	cache := testenv.Bin(".cache", "wine-test")
	r, err := OpenRuntime(t.Context(), cache, testenv.Bin("native"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRuntime(t *testing.T) {
	r := testRuntime(t)
	b, err := winver.Parse("2019")
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.HostPrefix(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("du", "-sh", r.Dir, p).CombinedOutput()
	t.Logf("%s %v", out, err)
}

func TestContainerRoot(t *testing.T) {
	testenv.Need(t, testenv.Root)
	r := testRuntime(t)
	b, err := winver.Parse("2019")
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.ContainerLayers(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("du", "-sh", l[0], l[1]).CombinedOutput()
	t.Logf("%s %v", out, err)
}
