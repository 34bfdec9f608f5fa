// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGuideWebServer is the demo of the README and of the Windows guide: its
// manifest, byte for byte, serves its page through a node port.
func TestGuideWebServer(t *testing.T) {
	c := up(t)
	c.kubectl(t, "apply", "-f", guide("win-webserver.yaml"))
	t.Cleanup(func() {
		if _, err := c.kubectlErr(context.Background(), "delete", "--wait=false", "-f",
			guide("win-webserver.yaml")); err != nil {
			t.Error(err)
		}
	})
	c.kubectl(t, "rollout", "status", "deployment/win-webserver", "--timeout=120s")
	url := c.url(t, "win-webserver")
	eventually(t, 30*time.Second, "the page", func() error {
		body, err := get(url)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(body, "<html><body><H1>Windows Container Web Server</H1>") ||
			!strings.Contains(body, "callerCount") {
			return fmt.Errorf("unexpected page %q", body)
		}
		return nil
	})
	// The script prints each request: logs work, and they are the program's own.
	if logs := c.kubectl(t, "logs", "deployment/win-webserver"); !strings.Contains(logs, "Listening at http://*:80/") {
		t.Errorf("logs %q", logs)
	}
}

// TestReadmeExample is the README's: nothing in its manifest says Windows.
func TestReadmeExample(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.kubectl(t, "apply", "-n", ns, "-f", filepath.Join("..", "..", "examples", "win-webserver.yaml"))
	c.kubectl(t, "rollout", "status", "-n", ns, "deployment/win-webserver", "--timeout=120s")
	c.landed(t, ns, "-lapp=win-webserver", "10.0.17763")
	url := c.url(t, "win-webserver", "-n", ns)
	eventually(t, 30*time.Second, "the page", func() error {
		body, err := get(url)
		if err == nil && !strings.Contains(body, "<H1>Windows Container Web Server</H1>") {
			err = fmt.Errorf("unexpected page %q", body)
		}
		return err
	})
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), nil
}
