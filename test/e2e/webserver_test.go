// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestGuideWebServer has the web server of Kubernetes' guide to Windows serve its page through node ports: by the
// guide's manifest, byte for byte, and by our example, which does not mention Windows, with the commands of the README
// and of docs/user/quickstart.md as these pages print them.
func TestGuideWebServer(t *testing.T) {
	t.Parallel()
	c := up(t)
	t.Run("guide", func(t *testing.T) {
		t.Parallel()
		ns := c.namespace(t)
		c.kubectl(t, "apply", "-n", ns, "-f", guide("win-webserver.yaml"))
		c.kubectl(t, "rollout", "status", "-n", ns, "deployment/win-webserver", "--timeout=120s")
		url := c.url(t, "win-webserver", "-n", ns)
		eventually(t, 30*time.Second, "the page", func() error {
			body, err := get(url)
			if err == nil && (!strings.HasPrefix(body, "<html><body>"+webServerTitle) ||
				!strings.Contains(body, "callerCount")) {
				err = fmt.Errorf("unexpected page %q", body)
			}
			return err
		})
		// The guide does so on the node of the control plane, which is this machine.
		const clusterIP = "jsonpath={.spec.clusterIP}"
		address := "http://" + c.kubectl(t, "get", "-n", ns, "service/win-webserver", "-o", clusterIP)
		if body, err := get(address); err != nil || !strings.Contains(body, webServerTitle) {
			t.Errorf("%s from the machine: %v, %q", address, err, body)
		}
		// The script prints each request: logs work, and they are the program's own.
		if logs := c.kubectl(t, "logs", "-n", ns, "deployment/win-webserver"); !strings.Contains(logs,
			"Listening at http://*:80/") {
			t.Errorf("logs %q", logs)
		}
	})
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		ns := c.namespace(t)
		r := newReader(t, c, ns)
		steps := stepsOf(blocksOf(t, "docs/user/quickstart.md"))
		if len(steps) < 10 {
			t.Fatalf("only %d commands: %v", len(steps), steps)
		}
		readme := false
		for _, s := range steps {
			// The README has the same web server, as it is before the quickstart scales it.
			if strings.HasPrefix(s.command, "kubectl scale") {
				c.landed(t, ns, "-lapp=win-webserver", "10.0.17763")
				r.followReadme(t)
				readme = true
			}
			r.follow(t, s)
		}
		if !readme {
			t.Error("the quickstart no longer scales the web server, and the README was not followed")
		}
	})
}

const webServerTitle = "<H1>Windows Container Web Server</H1>"

// followReadme runs the README's commands for the web server, and compares its refusal.
func (r reader) followReadme(t *testing.T) {
	t.Helper()
	blocks := blocksOf(t, "README.md")
	const down = "bin/mullion down" // it would remove the tests' cluster; TestLifecycle runs it
	served := false
	for _, block := range blocks {
		if block[len(block)-1] != down {
			continue
		}
		for _, command := range block[:len(block)-1] {
			out, err := r.run(t, command)
			if err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
			served = served || strings.HasPrefix(command, "curl ") && strings.Contains(out, webServerTitle)
		}
	}
	if !served {
		t.Error("no command of the README printed the page")
	}
	refused := stepsOf(blocks)
	if len(refused) != 1 {
		t.Fatalf("the README has the commands %v with outputs, want one", refused)
	}
	r.follow(t, refused[0])
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
