// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// checkWayIn takes the Linux workers away that lead from the machine into the overlay: the next one takes over,
// without any of them status says what fails, and a new one is the way in again.
func (c netCluster) checkWayIn() {
	c.t.Helper()
	c.t.Log("the way into the overlay")
	leads := func(node string) {
		c.t.Helper()
		eventually(c.t, time.Minute, "the API server reaches pods by way of "+node, func() error {
			if at := c.wayIn(); at != node {
				return fmt.Errorf("by way of %q", at)
			}
			return errors.Join(c.fromAPI())
		})
	}
	leads("linux-1")
	// A host that is killed tells the fabric nothing. Its next boot does, long before it leads again.
	var st struct {
		PID int `json:"pid"`
	}
	readJSON(c.t, filepath.Join(c.dir(), "run", "linux-1.json"), &st)
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	leads("linux-2")
	leads("linux-1")

	c.mullion("node", "remove", "linux-1", "--force")
	leads("linux-2")
	c.mullion("node", "remove", "linux-2", "--force")
	if at := c.wayIn(); at != "" {
		c.t.Errorf("without workers the fabric sends what is for pods to %s", at)
	}
	api, machine := c.fromAPI()
	// The API server dials for half a minute, or kubectl is the first to give up.
	if api == nil || !strings.Contains(api.Error(), "dial tcp") && !strings.Contains(api.Error(), "Client.Timeout") {
		c.t.Errorf("without workers, from the API server to a pod of the overlay: %v", api)
	}
	denied(c.t, "without workers, from the machine to a pod of the overlay", machine)
	// What goes through kubelets needs no way in.
	c.must("logs", "client")
	c.must("exec", "client", "--", "cmd", "/c", "ver")
	if _, noWayIn := c.reported(); !noWayIn {
		c.t.Error("status does not say that the API server reaches no pods")
	}
	// As status advises.
	c.mullion("node", "add", "--linux")
	leads("linux-3")
	if healthy, noWayIn := c.reported(); !healthy || noWayIn {
		c.t.Errorf("with a new worker: healthy %v, no way in %v", healthy, noWayIn)
	}
}

// fromAPI asks a pod through the API server, which calls webhooks and aggregated APIs the same way, and from the
// machine itself.
func (c netCluster) fromAPI() (api, machine error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	pod := c.must("get", "pods", "-l", "app=web", "-o",
		`jsonpath={.items[?(@.spec.nodeName=="win-2")].metadata.name}`)
	_, api = c.kubectl(ctx, "get", "--raw", "/api/v1/namespaces/default/pods/"+pod+":80/proxy/")
	return api, fetch(c.t.Context(), "http://"+c.webs()["win-2"])
}

// wayIn returns the node to which the fabric sends what the machine has for pods of win-2, or "".
func (c netCluster) wayIn() string {
	c.t.Helper()
	fabric := filepath.Join(c.dir(), "run", "netns", "mullion-"+c.name)
	out, err := exec.Command("nsenter", "--net="+fabric, "ip", "route", "get", c.webs()["win-2"]).Output()
	if err != nil {
		return "" // unreachable
	}
	_, after, _ := strings.Cut(string(out), " via ")
	address, _, _ := strings.Cut(after, " ")
	return c.must("get", "nodes", "-o",
		`jsonpath={.items[?(@.status.addresses[0].address=="`+address+`")].metadata.name}`)
}

// reported returns what status says. The command ends with an error where something is not ready.
func (c netCluster) reported() (healthy, noPodGateway bool) {
	c.t.Helper()
	out, err := c.command(c.t.Context(), "status", "-o", "json").Output()
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		c.t.Fatal(err)
	}
	var st struct {
		Healthy      bool `json:"healthy"`
		NoPodGateway bool `json:"noPodGateway"`
	}
	if err := json.Unmarshal(out, &st); err != nil {
		c.t.Fatalf("status: %v: %s", err, out)
	}
	return st.Healthy, st.NoPodGateway
}
