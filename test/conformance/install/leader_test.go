// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// TestTwoManagers runs two managers, as install does by default: one is killed
// and comes back, and later the other is asked to stop. Pods are created all the
// time.
func TestTwoManagers(t *testing.T) {
	c := newCluster(t)
	c.prepare()
	c.kubelet()
	c.must("install", "--image", image, "--wait=false")
	c.dns()
	one, two := c.begin(c.managerPod(), c.address()), c.begin(c.managerPod(), c.address())
	c.ready(one)
	c.ready(two)
	c.must("install", "--image", image) // waits for both and for the registration
	for _, p := range []*running{one, two} {
		c.answers(p)
	}
	c.nodes()
	leader, other := one, two
	if c.holder() == two.pod.Name {
		leader, other = two, one
	}
	c.leads(leader, other)

	load := c.load()
	load.more(200)

	// Until the kubelet has seen that the process is gone, some reviews go to it.
	leader.end(syscall.SIGKILL)
	load.more(50)
	c.status(leader, false)
	c.eventually("another leader", func() error {
		if got := c.holder(); got != other.pod.Name {
			return fmt.Errorf("%q has the lease", got)
		}
		return nil
	})
	before := c.failures()
	c.build("win-2025", "10.0.26100.4946", "windows-2025", other)
	back := c.restart(leader.pod, mustAddr(leader.address))
	c.ready(back)
	c.answers(back)
	c.leads(other, back)
	load.more(200)

	// A deleted pod is removed from the endpoints, and its process gets a signal.
	leases := c.leases()
	if err := c.client.CoreV1().Pods(other.pod.Namespace).Delete(t.Context(), other.pod.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other.end(syscall.SIGTERM)
	if code := other.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("after SIGTERM: exit code %d", code)
	}
	next := c.begin(c.managerPod(), c.address())
	c.ready(next)
	c.eventually("the next leader", func() error {
		if got := c.holder(); got != back.pod.Name && got != next.pod.Name {
			return fmt.Errorf("%q has the lease", got)
		}
		return nil
	})
	// The lease was released: the successor did not wait for it to expire.
	if got := leases.all(); !slices.Contains(got, "") {
		t.Errorf("holders of the lease: %q", got)
	}
	if c.holder() == back.pod.Name {
		back, next = next, back
	}
	c.leads(next, back)
	c.build("win-23h2", "10.0.25398.1665", "windows-23h2", next)
	load.more(200)
	load.stop()
	t.Logf("%d pods were created; %d reviews failed between the kill and the kubelet's status update",
		load.created.Load(), len(before))

	// A review may time out on a slow machine; any other failure means that no
	// manager was listening, which is a bug.
	for _, line := range c.failures()[len(before):] {
		if !strings.Contains(line, "deadline exceeded") {
			t.Errorf("a review was lost: %s", line)
		}
	}
	for _, p := range []*running{one, two, leader, other, back, next} {
		if text := lacks(p.program); text != "" {
			t.Errorf("%s lacked rights:\n%s", p.pod.Name, text)
		}
	}
}

// holder returns the pod that has the lease, or "" if it is free.
func (c *cluster) holder() string {
	c.t.Helper()
	l, err := c.client.CoordinationV1().Leases(install.DefaultNamespace).Get(c.t.Context(), inventory.Lease,
		metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return holderOf(l)
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	return pod
}

// leads checks who runs the controllers, by what the managers say.
func (c *cluster) leads(leader, other *running) {
	c.t.Helper()
	const says = "leading: the controllers run here"
	c.eventually("the leader's word", func() error {
		if !strings.Contains(leader.log.String(), says) {
			return fmt.Errorf("%s does not say that it leads", leader.pod.Name)
		}
		return nil
	})
	if strings.Contains(other.log.String(), says) {
		c.t.Errorf("%s leads, too", other.pod.Name)
	}
	for p, want := range map[*running]string{leader: "mullion_leader 1\n", other: "mullion_leader 0\n"} {
		if text := c.scrape(p); !strings.Contains(text, want) {
			c.t.Errorf("%s: no %s in its metrics:\n%s", p.pod.Name, want, text)
		}
	}
}

// scrape reads a manager's metrics as Prometheus does: by its annotations.
func (c *cluster) scrape(p *running) string {
	c.t.Helper()
	a := p.pod.Annotations
	if a["prometheus.io/scrape"] != "true" {
		c.t.Errorf("%s: annotations %v", p.pod.Name, a)
	}
	resp, err := http.Get("http://" + net.JoinHostPort(p.address, a["prometheus.io/port"]) + a["prometheus.io/path"])
	if err != nil {
		c.t.Errorf("%s: %v", p.pod.Name, err)
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Errorf("%s: %v %s", p.pod.Name, err, resp.Status)
	}
	return string(text)
}

// build adds a node of a build that had none. Its RuntimeClass and its label are
// the leader's work.
func (c *cluster) build(name, kernel, class string, leader *running) {
	c.t.Helper()
	c.node(node(name, "windows", kernel))
	c.eventually("RuntimeClass "+class, func() error {
		_, err := c.client.NodeV1().RuntimeClasses().Get(c.t.Context(), class, metav1.GetOptions{})
		return err
	})
	c.eventually("the label of "+name, func() error {
		n, err := c.client.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
		if err == nil && n.Labels[corev1.LabelWindowsBuild] == "" {
			err = fmt.Errorf("%v", n.Labels)
		}
		return err
	})
	c.eventually("the audit of both", func() error {
		for _, object := range []string{"runtimeclasses/" + class, "nodes/" + name} {
			by := c.writers()[object]
			if len(by) == 0 {
				return fmt.Errorf("no manager wrote %s", object)
			}
			if slices.ContainsFunc(by, func(pod string) bool { return pod != leader.pod.Name }) {
				c.t.Fatalf("%s was written by %q; %s leads", object, by, leader.pod.Name)
			}
		}
		return nil
	})
}

// auditPolicy has the managers' writes of what controllers write.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:mullion-system"]
  verbs: [create, update, patch, delete]
  resources:
  - resources: [nodes]
  - group: node.k8s.io
    resources: [runtimeclasses]
- level: None
`

// writers lists by object which pods' managers wrote it. The token of a pod
// says which one it is.
func (c *cluster) writers() map[string][]string {
	c.t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(c.read("audit.log")) {
		var e struct {
			User      struct{ Extra map[string][]string }
			ObjectRef struct{ Resource, Name string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // it is being written
		}
		key := e.ObjectRef.Resource + "/" + e.ObjectRef.Name
		out[key] = append(out[key], e.User.Extra["authentication.kubernetes.io/pod-name"]...)
	}
	return out
}

// failures returns the lines in which the API server says that a webhook did not
// answer.
func (c *cluster) failures() []string {
	var out []string
	for line := range strings.Lines(c.apiserver.log.String()) {
		if strings.Contains(line, "Failed calling webhook, failing") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
