// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bufio"
	"context"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// testPortForward reaches the last of the servers through kubectl.
func testPortForward(t *testing.T, c *shared, ns string, _, servers []string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Bin("mullion"), "kubectl", "--name", c.name, "--data-dir", c.dir,
		"port-forward", "-n", ns, "pod/"+servers[len(servers)-1], ":80")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }() // killed
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindStringSubmatch(line)
	if port == nil {
		t.Fatalf("port-forward says %q", line)
	}
	for range 3 {
		if _, err := get("http://127.0.0.1:" + port[1]); err != nil {
			t.Error(err)
		}
	}
}
