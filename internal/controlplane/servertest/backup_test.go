// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// snapshot runs `mullion-kube snapshot` and returns what it printed and its exit
// code.
func snapshot(t *testing.T, s *controlplanetest.Server, verb, file string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(testenv.Bin("mullion-kube"), "snapshot", verb, "--config", s.File, "--file", file)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func saveSnapshot(t *testing.T, s *controlplanetest.Server, file string) config.Snapshot {
	t.Helper()
	out, errs, code := snapshot(t, s, "save", file)
	var made config.Snapshot
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	return made
}

// elsewhere returns a control plane with the keys of s and the objects of the
// snapshot, in another directory.
func elsewhere(t *testing.T, s *controlplanetest.Server, file string) *controlplanetest.Server {
	t.Helper()
	other := controlplanetest.New(t, nil)
	if err := os.CopyFS(other.Config.PKI(), os.DirFS(s.Config.PKI())); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := snapshot(t, other, "restore", file); code != 0 {
		t.Fatalf("restore: %d, %s", code, errs)
	}
	return other
}

// TestSnapshotUnderLoad takes a snapshot while eight writers create and update
// objects, and starts another control plane from it. Its state must be the history
// of the first one up to the snapshot's revision: every write before it, no write
// after it.
func TestSnapshotUnderLoad(t *testing.T) {
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Ready()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		StringData: map[string]string{"password": "horse"}}
	if _, err := s.Admin().CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h := &history{acked: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 8 {
		client := s.Admin()
		writers.Go(func() { h.write(ctx, client, fmt.Sprintf("w%d", w)) })
	}
	h.wait(t, 200)
	file := filepath.Join(t.TempDir(), "snapshot")
	made := saveSnapshot(t, s, file)
	h.wait(t, h.count()+200)
	cancel()
	writers.Wait()
	s.Stop()

	other := elsewhere(t, s, file)
	other.Start()
	other.Ready()
	list, err := other.Admin().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, cm := range list.Items {
		have[cm.Name] = cm.Data["n"]
	}
	delete(have, "kube-root-ca.crt")
	want, later := map[string]string{}, 0
	slices.SortFunc(h.writes, func(a, b write) int { return cmp.Compare(a.revision, b.revision) })
	for _, w := range h.writes {
		if w.revision <= uint64(made.Revision) {
			want[w.name] = w.value
		} else {
			later++
		}
	}
	if d := gocmp.Diff(want, have); d != "" {
		t.Errorf("state at revision %d (-acknowledged +restored):\n%s", made.Revision, d)
	}
	t.Logf("snapshot at revision %d: %d objects of %d; %d acknowledged writes came later", made.Revision, len(have),
		len(h.acked), later)
	if later == 0 || len(have) < 50 {
		t.Error("the snapshot was not taken under load: the test has tested nothing")
	}
	got, err := other.Admin().CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || string(got.Data["password"]) != "horse" {
		t.Errorf("secret: %v, %v", got, err)
	}
	// No client sees a revision go back.
	if rv, err := strconv.ParseUint(list.ResourceVersion, 10, 64); err != nil || rv < h.newest {
		t.Errorf("resource version %s after %d", list.ResourceVersion, h.newest)
	}
	other.Stop()
}

// TestSnapshotOfAStoppedServer: etcd's database may lack what its log has, so a
// server that was killed is the hard case.
func TestSnapshotOfAStoppedServer(t *testing.T) {
	s := controlplanetest.New(t, nil)
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, errs, code := snapshot(t, s, "save", file); code != 1 || !strings.Contains(errs, "has never run") {
		t.Errorf("before the first start: exit code %d, %s", code, errs)
	}
	s.Start()
	s.Component(plan.Bootstrap, string(supervise.Ready))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last"}}
	if _, err := s.Admin().CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	saveSnapshot(t, s, file)
	other := elsewhere(t, s, file)
	other.Start()
	other.Ready()
	_, err := other.Admin().CoreV1().ConfigMaps("default").Get(t.Context(), "last", metav1.GetOptions{})
	if err != nil {
		t.Error(err)
	}
	other.Stop()

	// What is not a whole snapshot is refused, and so is a directory in use.
	if _, errs, code := snapshot(t, other, "restore", file); code != 1 || !strings.Contains(errs, "not empty") {
		t.Errorf("over existing data: exit code %d, %s", code, errs)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := controlplanetest.New(t, nil)
	if _, errs, code := snapshot(t, empty, "restore", file); code != 1 || !strings.Contains(errs, "expected sha256") {
		t.Errorf("a flipped bit: exit code %d, %s", code, errs)
	}
}

// wait waits until n writes were acknowledged.
func (h *history) wait(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); h.count() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d writes within a minute, want %d", h.count(), n)
		}
	}
}
