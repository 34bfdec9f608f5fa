// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"errors"
	"fmt"
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

// onSmallDisk starts a control plane whose data lie on a tmpfs with the options.
func onSmallDisk(t *testing.T, options string) *controlplanetest.Server {
	t.Helper()
	testenv.Need(t, testenv.Root)
	s := controlplanetest.New(t, nil)
	if err := os.MkdirAll(s.Config.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("mullion-test", s.Config.DataDir, "tmpfs", 0, options+",mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.Config.DataDir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.Start()
	s.Ready()
	if err := createMap(t, s, "before", ""); err != nil {
		t.Fatal(err)
	}
	return s
}

// createMap writes an object through the API server.
func createMap(t *testing.T, s *controlplanetest.Server, name, content string) error {
	t.Helper()
	_, err := s.Admin().CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"x": content}},
		metav1.CreateOptions{})
	return err
}

// endsForSpace expects that the control plane ends, and that it works again with the objects once the files are gone.
func endsForSpace(t *testing.T, s *controlplanetest.Server, files []string, objects ...string) {
	t.Helper()
	if code := s.Exit(); code != 1 || !strings.Contains(s.Log.String(), "no space left on device") {
		t.Errorf("exit code %d\n%s", code, s.Tail(5))
	}
	for _, path := range files {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	s.Start()
	s.Ready()
	for _, name := range objects {
		if _, err := s.Admin().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	if err := createMap(t, s, "after", ""); err != nil {
		t.Error(err)
	}
	s.Stop()
}

// TestDiskFull fills the disk under a running control plane: it ends and says
// why, and works again with all its data when there is room.
func TestDiskFull(t *testing.T) {
	s := onSmallDisk(t, "size=170m") // etcd alone takes 128 MB at once, for two log segments
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
	for i := range 100 {
		if createMap(t, s, "during"+strings.Repeat("x", i), strings.Repeat("x", 100_000)) != nil {
			break
		}
	}
	endsForSpace(t, s, []string{fill}, "before")
}

// TestOutOfInodes uses up the files of a file system: a control plane that runs goes
// on, one that starts says why it cannot, and with room again all data are there.
func TestOutOfInodes(t *testing.T) {
	s := onSmallDisk(t, "nr_inodes=200")
	var err error
	var fill []string
	for i := 0; err == nil; i++ {
		path := filepath.Join(s.Config.DataDir, fmt.Sprintf("fill-%d", i))
		if err = os.WriteFile(path, nil, 0o600); err == nil {
			fill = append(fill, path)
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := createMap(t, s, "during", ""); err != nil {
		t.Errorf("a control plane that runs: %v", err)
	}
	s.Stop()
	s.Start()
	endsForSpace(t, s, fill, "before", "during")
}
