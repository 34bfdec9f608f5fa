// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkControlPlane starts our control plane and kwokctl's binary runtime
// with the same Kubernetes build in turn, each from nothing, and measures from
// exec to /readyz = 200. kwokctl also starts its own controller, we also start
// DNS and generate more certificates; both do the work of a first start.
func BenchmarkControlPlane(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Built)
	if _, err := os.Stat(testenv.Bin("peers", "kwokctl")); err != nil {
		b.Skip("run `make peers` first")
	}
	const rounds = 5 // pairs; the median of their ratios is reported
	var ours, theirs, ratios []float64
	for b.Loop() {
		for range rounds {
			a, k := startOurs(b), startKwok(b)
			ours, theirs, ratios = append(ours, a.Seconds()), append(theirs, k.Seconds()),
				append(ratios, a.Seconds()/k.Seconds())
		}
	}
	b.ReportMetric(median(ours), "s/readyz")
	b.ReportMetric(median(theirs), "s/readyz-kwokctl")
	b.ReportMetric(median(ratios), "x-kwokctl/readyz")
	b.ReportMetric(0, "ns/op") // the sum of both and their stopping
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func startOurs(b *testing.B) time.Duration {
	b.Helper()
	const port = 16443
	dir := b.TempDir()
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	cfg := config.Config{
		APIVersion:  config.Version,
		Name:        "bench",
		DataDir:     filepath.Join(dir, "c"),
		Addresses:   []netip.Addr{loopback},
		Port:        port,
		NodeCIDR:    netip.MustParsePrefix("10.89.60.0/24"),
		PodCIDR:     netip.MustParsePrefix("10.184.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.156.0.0/16"),
	}
	document, err := json.Marshal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(testenv.Bin("mullion-kube"), "server", "--config", file)
	took := untilReady(b, port, cmd.Start)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	_ = cmd.Wait() // asked to stop
	return took
}

func startKwok(b *testing.B) time.Duration {
	b.Helper()
	const port = 16444
	dir := b.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		b.Fatal(err)
	}
	// kwokctl wants a kubectl, and would download one.
	if err := os.Symlink(testenv.Bin("mullion-kube"), filepath.Join(bin, "kubectl")); err != nil {
		b.Fatal(err)
	}
	kwokctl := func(args ...string) *exec.Cmd {
		cmd := exec.Command(testenv.Bin("peers", "kwokctl"), args...)
		cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+filepath.Join(dir, "work"), "PATH="+bin+":"+os.Getenv("PATH"))
		return cmd
	}
	args := []string{"create", "cluster", "--name", "bench", "--runtime", "binary", "--kube-apiserver-port",
		fmt.Sprint(port)}
	for flag, program := range map[string]string{"etcd": "etcd", "kube-apiserver": "kube-apiserver",
		"kube-controller-manager": "kube-controller-manager", "kube-scheduler": "kube-scheduler",
		"kwok-controller": "kwok"} {
		args = append(args, "--"+flag+"-binary", testenv.Bin("peers", program))
	}
	create := kwokctl(args...)
	took := untilReady(b, port, create.Start)
	if err := create.Wait(); err != nil {
		b.Fatalf("kwokctl create: %v", err)
	}
	if out, err := kwokctl("delete", "cluster", "--name", "bench").CombinedOutput(); err != nil {
		b.Fatalf("kwokctl delete: %v: %s", err, out)
	}
	return took
}

// untilReady measures from start to the first 200 of /readyz, which both let
// everybody ask.
func untilReady(b *testing.B, port int, start func() error) time.Duration {
	b.Helper()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // only the status counts
	began := time.Now()
	if err := start(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/readyz", port),
			nil)
		if err != nil {
			b.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(began)
			}
		}
		if ctx.Err() != nil {
			b.Fatalf("port %d: not ready within a minute", port)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
