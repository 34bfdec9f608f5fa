// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// Of the tests' clusters no other has this name or index, by which its addresses differ.
const (
	clusterName  = "programs"
	clusterIndex = 36
)

// lab is a cluster with a Windows host and a Linux worker.
type lab struct{ dir string }

// newLab starts the cluster, which goes when the test ends.
func newLab(t testing.TB) lab {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Wine, testenv.Runc, testenv.Nft, testenv.Built, testenv.NPM)
	dir, err := os.MkdirTemp("", "mullion-programs-")
	if err != nil {
		t.Fatal(err)
	}
	l := lab{dir}
	home := filepath.Join(dir, "clusters", clusterName)
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	doc := fmt.Sprintf(`{"apiVersion":"mullion/v1alpha1","name":%q,"index":%d,"windows":["2022"],"linux":1}`,
		clusterName, clusterIndex)
	if err := os.WriteFile(filepath.Join(home, "cluster.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := l.command(context.Background(), "down", "--purge").CombinedOutput(); err != nil {
			t.Errorf("down --purge: %v: %s", err, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l.mullion(t, "up", "--kubeconfig", "none")
	return l
}

func (l lab) command(ctx context.Context, args ...string) *exec.Cmd {
	// Flags of kubectl, and arguments behind --, follow ours.
	argv := append([]string{args[0], "--name", clusterName, "--data-dir", l.dir}, args[1:]...)
	return exec.CommandContext(ctx, testenv.Bin("mullion"), argv...)
}

// commandLimit is for one command: the start of the cluster, or the load of the largest image.
const commandLimit = 5 * time.Minute

// mullion runs a command that must succeed, and returns its output.
func (l lab) mullion(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.run(t, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (l lab) run(t testing.TB, stdin io.Reader, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := l.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("mullion %s: %w: %s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

func (l lab) kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return l.mullion(t, append([]string{"kubectl"}, args...)...)
}

// start makes an object.
func (l lab) start(t testing.TB, object any) {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	l.apply(t, string(data))
}

func (l lab) apply(t testing.TB, manifest string) {
	t.Helper()
	if _, err := l.run(t, strings.NewReader(manifest), "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// pause is between two looks at what a pod does.
const pause = 200 * time.Millisecond

// end waits for the end of a pod, and returns the exit code of its program, and its log. The pod goes.
func (l lab) end(t testing.TB, name string) (code int64, log string) {
	t.Helper()
	var state corev1.ContainerState
	testenv.Eventually(t, "the end of "+name, func() error {
		time.Sleep(pause)
		var pod corev1.Pod
		if err := json.Unmarshal([]byte(l.kubectl(t, "get", "pod", name, "-o", "json")), &pod); err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) == 1 {
			state = pod.Status.ContainerStatuses[0].State
		}
		if state.Terminated == nil {
			return fmt.Errorf("phase %s, %v", pod.Status.Phase, state)
		}
		return nil
	})
	log = l.kubectl(t, "logs", name)
	l.kubectl(t, "delete", "pod", name, "--wait=false")
	return int64(state.Terminated.ExitCode), log
}

// serves requests the path from a pod through a Service, and ends the pod.
func (l lab) serves(t *testing.T, pod string, try try) string {
	t.Helper()
	l.kubectl(t, "expose", "pod", pod, "--port=8080", "--type=NodePort")
	defer l.kubectl(t, "delete", "pod,service", pod, "--ignore-not-found", "--wait=false", "--grace-period=5")
	url := strings.TrimSpace(l.mullion(t, "url", pod))
	answer := ""
	testenv.Eventually(t, "an answer of "+pod, func() (err error) {
		time.Sleep(pause)
		answer, err = get(url + try.path)
		return err
	})
	if !strings.Contains(answer, try.want) {
		return fmt.Sprintf("answer %q, want %q", answer, try.want)
	}
	if try.ends != nil {
		return try.ends(l, t, pod)
	}
	return ""
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(body), err
}
