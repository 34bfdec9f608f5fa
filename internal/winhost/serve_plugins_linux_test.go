// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/wine"
)

// TestCancelledPlugin: what a plugin has started may finish when the plugin is
// killed, and does not stay.
func TestCancelledPlugin(t *testing.T) {
	for _, c := range []struct {
		name, child string
		finishes    bool
	}{
		{"finishes", `sleep 0.2; echo done > "$dir/done"`, true},
		{"stays", "sleep 1000", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := filepath.Join(dir, wine.InitPath)
			if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("#!/bin/sh\ndir=%s\n(echo $$ > $dir/group.tmp; mv $dir/group.tmp $dir/group; %s) &\n"+
				"exec sleep 1000\n", dir, c.child)
			if err := os.WriteFile(script, []byte(text), 0o755); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				runner := pluginRunner{wine.Host{Runtime: dir}, dir, 3 * time.Second}
				_, _, err := runner.RunPlugin(ctx, `C:\win-bridge.exe`, nil, nil)
				ended <- err
			}()
			group := 0
			for group == 0 {
				select {
				case err := <-ended:
					t.Fatalf("the plugin ended: %v", err)
				case <-time.After(10 * time.Millisecond):
				}
				content, err := os.ReadFile(filepath.Join(dir, "group"))
				if err == nil {
					_, _ = fmt.Sscan(strings.TrimSpace(string(content)), &group) // 0 until it can be read
				}
			}
			cancel()
			if err := <-ended; err == nil {
				t.Error("no error from a plugin that was killed")
			}
			if _, err := os.Stat(filepath.Join(dir, "done")); (err == nil) != c.finishes {
				t.Errorf("the child's file: %v", err)
			}
			end := time.Now().Add(10 * time.Second)
			for ; unix.Kill(-group, 0) == nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("processes of group %d are left", group)
				}
			}
		})
	}
}
