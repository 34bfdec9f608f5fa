// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// cycleServices is how many Services TestServiceCycles makes at once.
const cycleServices = 50

// TestServiceCycles makes and removes Services, again and again, while what carries them out is killed with -9 at any
// moment: a connection through another Service goes on, the new Services answer, and in the end nothing is left of
// them.
func TestServiceCycles(t *testing.T) {
	c := alone(t)
	c.withLinuxprog(t)
	ns := c.namespace(t)
	c.apply(t, ns, `{apiVersion: v1, kind: Pod, metadata: {name: server, labels: {app: server}},
  spec: {containers: [{name: main, image: "`+linuxprogImage+`", args: [serve, "8080"]}]}}
---
`+cycleService("stays", "ClusterIP"))
	c.ready(t, ns, "server")
	const node = "win-1"
	var conn *connection
	eventually(t, time.Minute, "a Service answers on "+node, func() (err error) {
		conn, err = dialFrom(c.netnsOf(t, node), c.kubectl(t, "get", "service", "-n", ns, "stays", "-o",
			"jsonpath={.spec.clusterIP}"))
		return err
	})
	defer conn.Close()
	victims := []struct {
		argv, node string
	}{{"kube-proxy.exe", node}, {"winhost serve", node}, {"mullion-kube server", ""}}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // when to kill, not a secret
	var before holdings
	times := testenv.Times(t, 3*cycleServices, 1000) / cycleServices
	for n := range times + 1 {
		var y strings.Builder
		for i := range cycleServices {
			y.WriteString(cycleService(fmt.Sprintf("s%d", i), []string{"ClusterIP", "NodePort"}[i%2]))
		}
		c.apply(t, ns, y.String())
		if n > 0 {
			v := victims[n%len(victims)]
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			c.kill(t, v.argv, v.node, v.node != "")
		}
		eventually(t, 2*time.Minute, "all Services answer", func() error { return c.allAnswer(t, ns, node) })
		if err := conn.ask(); err != nil {
			t.Fatalf("round %d: the connection that was there before: %v", n, err)
		}
		c.kubectl(t, "delete", "services", "-n", ns, "-l", "cycle=yes")
		if n == 0 { // what is made once is not a leak
			time.Sleep(5 * time.Second) // too early only hides a leak of this round
			before = c.holdings(t)
		}
	}
	eventually(t, 2*time.Minute, "everything of the Services is gone", func() error {
		return c.holdings(t).beyond(before, times*cycleServices)
	})
	if err := conn.ask(); err != nil {
		t.Errorf("in the end: %v", err)
	}
	c.calm(t)
	t.Logf("%d Services came and went", times*cycleServices)
}

// calm checks that no program of a node asks for its Node again and again: a server that was killed cannot watch from
// what the programs knew before.
func (c *shared) calm(t *testing.T) {
	t.Helper()
	watches := func() int {
		sum := 0
		for line := range strings.Lines(c.kubectl(t, "get", "--raw", "/metrics")) {
			if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `resource="nodes"`) &&
				strings.Contains(line, `verb="WATCH"`) {
				n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
		return sum
	}
	before := watches()
	const seconds = 5
	time.Sleep(seconds * time.Second)
	// Two a second are more than all programs of all nodes begin when they wait in between.
	if n := watches() - before; before == 0 || n > 2*seconds {
		t.Errorf("%d watches of nodes began in %d s, after %d", n, seconds, before)
	}
}

// cycleService returns a Service in front of the server; all but "stays" have a label.
func cycleService(name, kind string) string {
	label := ""
	if name != "stays" {
		label = ", labels: {cycle: 'yes'}"
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s%s},
  spec: {type: %s, selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}}
---
`, name, label, kind)
}

// netnsOf is the network namespace of a node.
func (c *shared) netnsOf(t *testing.T, node string) string {
	t.Helper()
	return fmt.Sprintf("/proc/%d/ns/net", c.hostInit(t, node))
}

// allAnswer asks all Services with the label from a node.
func (c *shared) allAnswer(t *testing.T, ns, node string) error {
	t.Helper()
	out, err := c.kubectlErr(t.Context(), "get", "services", "-n", ns, "-l", "cycle=yes", "-o",
		"jsonpath={.items[*].spec.clusterIP}")
	if err != nil {
		return err
	}
	vips := strings.Fields(out)
	if len(vips) != cycleServices {
		return fmt.Errorf("%d Services, want %d", len(vips), cycleServices)
	}
	for _, vip := range vips {
		conn, err := dialFrom(c.netnsOf(t, node), vip)
		if err != nil {
			return err
		}
		conn.Close()
	}
	return nil
}

// connection is one connection by HTTP.
type connection struct {
	net.Conn
	answers *bufio.Reader
}

// dialFrom connects from a network namespace to port 80 and asks once.
func dialFrom(netns, host string) (*connection, error) {
	c := &connection{}
	err := kernel.Do(netns, func() (err error) {
		c.Conn, err = net.DialTimeout("tcp4", net.JoinHostPort(host, "80"), 3*time.Second)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewReader(c.Conn)
	if err := c.ask(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ask sends a request on the connection.
func (c *connection) ask() error {
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: server\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
