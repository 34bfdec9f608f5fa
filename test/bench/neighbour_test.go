// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

const attackerImage = "example.test/winprog:bench"

// BenchmarkNeighbour measures how long a pod and the API server take to answer while another
// pod of the same host takes all that it can get, as multiples of what they took
// before.
func BenchmarkNeighbour(b *testing.B) {
	c := newCluster(b)
	c.mullion("up", "--windows", "2019", "--linux", "0", "--kubeconfig", "none")
	c.loadAttackers()
	c.attacker("neighbour", "serve", ":8080")
	c.kubectl("wait", "--for=condition=Ready", "pod/neighbour", "--timeout=60s")
	c.kubectl("expose", "pod", "neighbour", "--port=8080", "--type=NodePort")
	clients := []neighbour{
		{"http", 200, get(c.output("url", "neighbour") + "/live")},
		{"readyz", 200, get(c.output("kubectl", "config", "view", "--minify", "-o",
			"jsonpath={.clusters[0].cluster.server}") + "/readyz")},
		{"exec", 20, func() error {
			return c.command("kubectl", "exec", "neighbour", "--", "cmd", "/c", "exit").Run()
		}},
	}
	idle := map[string][]time.Duration{} // of all rounds
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			for _, n := range clients {
				idle[n.name] = append(idle[n.name], n.measure(b)...)
			}
		}
		for _, n := range clients {
			slices.Sort(idle[n.name])
			b.ReportMetric(1000*percentile(idle[n.name], 50), "ms-p50/"+n.name)
			b.ReportMetric(1000*percentile(idle[n.name], 99), "ms-p99/"+n.name)
		}
		b.ReportMetric(0, "ns/op") // meaningless for a sum of different things
	})
	for _, attack := range [][]string{{"flood", "1000000000"}, {"fork"}, {"threads"}, {"memory"},
		{"disk", `C:\app\big`}, {"spin"}} {
		b.Run(attack[0], func(b *testing.B) {
			attacked := map[string][]time.Duration{} // of all rounds
			for b.Loop() {
				c.attacker("attacker", attack...)
				c.kubectl("wait", "--for=jsonpath={.status.startTime}", "pod/attacker", "--timeout=60s")
				time.Sleep(2 * time.Second) // it begins
				for _, n := range clients {
					attacked[n.name] = append(attacked[n.name], n.measure(b)...)
				}
				c.kubectl("delete", "pod", "attacker", "--grace-period=0", "--force")
			}
			for _, n := range clients {
				took, before := attacked[n.name], idle[n.name]
				slices.Sort(took)
				b.ReportMetric(percentile(took, 50)/percentile(before, 50), "x-idle-p50/"+n.name)
				b.ReportMetric(percentile(took, 99)/percentile(before, 99), "x-idle-p99/"+n.name)
			}
			b.ReportMetric(0, "ns/op") // meaningless for a sum of different things
		})
	}
}

// neighbour is one who must go on answering.
type neighbour struct {
	name  string
	count int // of questions
	ask   func() error
}

// measure asks again and again, and returns how long the answers took.
func (n neighbour) measure(b *testing.B) []time.Duration {
	b.Helper()
	var took []time.Duration
	for range n.count {
		began := time.Now()
		if err := n.ask(); err != nil {
			b.Errorf("%s: %v", n.name, err)
		}
		took = append(took, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	return took
}

// percentile of a sorted list, in seconds.
func percentile(list []time.Duration, percent int) float64 {
	return list[min(len(list)-1, len(list)*percent/100)].Seconds()
}

// get returns what asks a server, over a connection of its own each time.
func get(url string) func() error {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // only the time counts
	return func() error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("get %s: %s", url, resp.Status)
		}
		return nil
	}
}

func (c cluster) command(args ...string) *exec.Cmd {
	at := []string{"--name", name, "--data-dir", c.dir}
	return exec.Command(testenv.Bin("mullion"), slices.Concat(args[:1], at, args[1:])...)
}

func (c cluster) output(args ...string) string {
	c.b.Helper()
	cmd := c.command(args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		c.b.Fatalf("mullion %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// attacker starts the program of the end-to-end tests in one of its modes.
func (c cluster) attacker(pod string, args ...string) {
	c.b.Helper()
	c.kubectl(slices.Concat([]string{"run", pod, "--image=" + attackerImage, "--image-pull-policy=Never",
		"--restart=Never", `--overrides={"spec":{"nodeSelector":{"kubernetes.io/os":"windows"}}}`, "--"}, args)...)
}

// loadAttackers puts an image with that program on the host.
func (c cluster) loadAttackers() {
	c.b.Helper()
	build, err := winver.Parse("2019")
	if err != nil {
		c.b.Fatal(err)
	}
	work := c.b.TempDir()
	exe := filepath.Join(work, "winprog.exe")
	cmd := exec.Command("go", "build", "-trimpath", "-o", exe, "./test/e2e/testdata/winprog")
	cmd.Dir, cmd.Env = testenv.Repo(), append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.b.Fatalf("build winprog: %v: %s", err, out)
	}
	content, err := os.ReadFile(exe)
	if err != nil {
		c.b.Fatal(err)
	}
	img, err := imagebuild.Build(imagebuild.Spec{
		Build: build, Base: "servercore",
		Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "app/winprog.exe", Content: content}}}},
		Config: v1.Config{
			Entrypoint: []string{`C:\app\winprog.exe`},
			WorkingDir: `C:\app`,
			User:       "ContainerAdministrator",
		},
	})
	if err != nil {
		c.b.Fatal(err)
	}
	var buf bytes.Buffer
	if err := imagebuild.WriteLayout(&buf, map[string]*imagebuild.Image{attackerImage: img}); err != nil {
		c.b.Fatal(err)
	}
	file := filepath.Join(work, "image.tar")
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		c.b.Fatal(err)
	}
	c.mullion("load", file)
}
