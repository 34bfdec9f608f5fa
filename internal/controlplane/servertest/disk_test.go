// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestDiskFull fills the disk under a running control plane: it ends and says
// why, and works again with all its data when there is room.
func TestDiskFull(t *testing.T) {
	testenv.Need(t, testenv.Root)
	s := controlplanetest.New(t, nil)
	if err := os.MkdirAll(s.Config.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	// etcd alone takes 128 MB at once, for two log segments.
	if err := syscall.Mount("mullion-test", s.Config.DataDir, "tmpfs", 0, "size=170m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.Config.DataDir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.Start()
	s.Ready()
	api := s.Admin().CoreV1().ConfigMaps("default")
	create := func(name string) error {
		_, err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string]string{"x": strings.Repeat("x", 100_000)}}, metav1.CreateOptions{})
		return err
	}
	if err := create("before"); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(s.Config.DataDir, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	chunk := []byte(strings.Repeat("x", 1<<16))
	for err == nil {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) || f.Close() != nil {
		t.Fatal(err)
	}
	for i := 0; i < 100 && err != nil; i++ {
		if create("during"+strings.Repeat("x", i)) != nil {
			break
		}
	}
	if code := s.Exit(); code != 1 || !strings.Contains(s.Log.String(), "no space left on device") {
		t.Errorf("exit code %d\n%s", code, s.Tail(5))
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.Ready()
	if _, err := api.Get(t.Context(), "before", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := create("after"); err != nil {
		t.Error(err)
	}
	s.Stop()
}
