// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// controllersYAML has a controller of each kind; all their pods run on hosts of
// Windows Server 2022. POD stands for the specification of a pod that runs until it
// is deleted.
var controllersYAML = strings.NewReplacer(
	"POD", `{metadata: {labels: {app: NAME}}, spec: {terminationGracePeriodSeconds: 1,
    nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}, containers: [{name: main,
    image: "mcr.microsoft.com/windows/servercore:ltsc2022", env: [{name: EDITION, value: "1"}],
    command: [cmd, /c, ping -t localhost]}]}}`,
	"IMAGE", `"mcr.microsoft.com/windows/servercore:ltsc2022"`,
).Replace(`apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: rs}
spec: {replicas: 2, selector: {matchLabels: {app: rs}}, template: POD}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: rc}
spec: {replicas: 2, selector: {app: rc}, template: POD}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: deploy}
spec: {replicas: 2, selector: {matchLabels: {app: deploy}}, template: POD}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: sts}
spec: {serviceName: sts, replicas: 2, selector: {matchLabels: {app: sts}}, template: POD}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ds}
spec: {selector: {matchLabels: {app: ds}}, template: POD}
---
apiVersion: batch/v1
kind: Job
metadata: {name: indexed}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: IMAGE,
    command: [cmd, /c, "echo I am %JOB_COMPLETION_INDEX%"]}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  backoffLimit: 1
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: IMAGE, command: [cmd, /c, exit 3]}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template: {spec: {restartPolicy: Never, containers: [{name: main, image: IMAGE, command: [cmd, /c, echo tick]}]}}
`)

// withNames puts the name of each object into its pods' labels.
func withNames(yaml string) string {
	docs := strings.Split(yaml, "---\n")
	for i, doc := range docs {
		_, rest, _ := strings.Cut(doc, "metadata: {name: ")
		object, _, _ := strings.Cut(rest, "}")
		docs[i] = strings.ReplaceAll(doc, "NAME", object)
	}
	return strings.Join(docs, "---\n")
}

// TestControllers takes each kind of controller through rollout, rollback, scale and a
// drain of one of its two nodes, then deletes that node and lets it join again. The
// node is one that 'mullion node' adds and removes.
func TestControllers(t *testing.T) {
	c := alone(t, "2022")
	ns := c.namespace(t)
	node := c.addNode(t, "2022")
	c.apply(t, ns, withNames(controllersYAML))
	for _, tc := range []struct{ name, object, path, want string }{
		{"ReplicaSet", "replicaset/rs", "{.status.readyReplicas}", "2"},
		{"ReplicationController", "replicationcontroller/rc", "{.status.readyReplicas}", "2"},
		{"Deployment", "deployment/deploy", "{.status.readyReplicas}", "2"},
		{"StatefulSet", "statefulset/sts", "{.status.readyReplicas}", "2"},
		{"DaemonSet", "daemonset/ds", "{.status.numberReady} {.status.desiredNumberScheduled}", "2 2"},
		{"indexed Job", "job/indexed", "{.status.completedIndexes} {.status.succeeded}", "0-2 3"},
	} {
		t.Run(tc.name, func(t *testing.T) { c.becomes(t, ns, tc.object, tc.path, tc.want) })
	}
	t.Run("index", func(t *testing.T) {
		out := c.kubectl(t, "logs", "-n", ns, "-l", "job-name=indexed", "--tail=-1")
		for _, want := range []string{"I am 0", "I am 1", "I am 2"} {
			if !strings.Contains(out, want) {
				t.Errorf("no pod printed %q: %s", want, out)
			}
		}
	})
	t.Run("CronJob", func(t *testing.T) {
		c.kubectl(t, "create", "job", "-n", ns, "tick", "--from=cronjob/cron")
		c.becomes(t, ns, "job/tick", "{.status.succeeded}", "1")
	})
	for _, object := range []string{"deployment/deploy", "statefulset/sts", "daemonset/ds"} {
		t.Run("rollout of "+object, func(t *testing.T) { c.rollOut(t, ns, object) })
	}
	for _, object := range []string{"replicaset/rs", "replicationcontroller/rc", "statefulset/sts"} {
		t.Run("scale of "+object, func(t *testing.T) {
			for _, n := range []string{"3", "1", "2"} {
				c.kubectl(t, "scale", "-n", ns, object, "--replicas="+n)
				c.becomes(t, ns, object, "{.status.readyReplicas} {.status.replicas}", n+" "+n)
			}
		})
	}
	// Its second attempt comes ten seconds after the first.
	t.Run("Job that fails", func(t *testing.T) {
		c.becomes(t, ns, "job/fails", `{.status.failed} {.status.conditions[?(@.type=="Failed")].reason}`,
			"2 BackoffLimitExceeded")
	})
	t.Run("drain", func(t *testing.T) { c.drain(t, ns, node) })
	t.Run("deleted and joined again", func(t *testing.T) { c.rejoin(t, ns, node) })
}

// becomes waits until a field of an object has a value.
func (c *shared) becomes(t *testing.T, ns, object, path, want string) {
	t.Helper()
	eventually(t, time.Minute, object, func() error {
		got, err := c.kubectlErr(t.Context(), "get", "-n", ns, object, "-o", "jsonpath="+path)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %q, want %q", path, got, want)
		}
		return err
	})
}

// addNode adds a Windows host, with more flags, that is gone after the test, and returns its name.
func (c *shared) addNode(t *testing.T, build string, more ...string) string {
	t.Helper()
	before := strings.Fields(c.mullion(t, "node", "list", "-o", "name"))
	c.mullion(t, append([]string{"node", "add", "--windows", build}, more...)...)
	var added string
	for n := range strings.FieldsSeq(c.mullion(t, "node", "list", "-o", "name")) {
		if !strings.Contains(" "+strings.Join(before, " ")+" ", " "+n+" ") {
			added = n
		}
	}
	t.Cleanup(func() {
		out, err := c.try(context.Background(), "", "node", "remove", added, "--purge", "--name", c.name,
			"--data-dir", c.dir)
		if err != nil {
			t.Errorf("remove %s: %v: %s", added, err, out)
		}
		if out, err := c.kubectlErr(context.Background(), "get", "node", added); err == nil {
			t.Errorf("the node is left: %s", out)
		}
	})
	return added
}

// rollOut changes the pods of a controller and takes the change back.
func (c *shared) rollOut(t *testing.T, ns, object string) {
	t.Helper()
	edition := `{.spec.template.spec.containers[0].env[?(@.name=="EDITION")].value}`
	c.kubectl(t, "set", "env", "-n", ns, object, "EDITION=2")
	c.kubectl(t, "rollout", "status", "-n", ns, object, "--timeout=180s")
	selector := "app=" + object[strings.Index(object, "/")+1:]
	pods := `{range .items[*]}{.spec.containers[0].env[?(@.name=="EDITION")].value}{end}`
	eventually(t, 30*time.Second, "pods of the new edition alone", func() error {
		got, err := c.kubectlErr(t.Context(), "get", "pods", "-n", ns, "-l", selector, "-o", "jsonpath="+pods)
		if err == nil && got != "22" {
			err = fmt.Errorf("editions %q, want 22", got)
		}
		return err
	})
	c.kubectl(t, "rollout", "undo", "-n", ns, object)
	c.kubectl(t, "rollout", "status", "-n", ns, object, "--timeout=180s")
	c.becomes(t, ns, object, edition, "1")
}

// drain drains a node: what its controllers keep runs elsewhere, and the pod of the
// DaemonSet stays.
func (c *shared) drain(t *testing.T, ns, node string) {
	t.Helper()
	c.kubectl(t, "drain", node, "--ignore-daemonsets", "--timeout=180s", "--delete-emptydir-data", "--force")
	for _, object := range []string{"replicaset/rs", "replicationcontroller/rc", "deployment/deploy",
		"statefulset/sts"} {
		c.becomes(t, ns, object, "{.status.readyReplicas}", "2")
	}
	got := c.kubectl(t, "get", "pods", "-n", ns, "--field-selector", "spec.nodeName="+node+",status.phase=Running",
		"-o", "jsonpath={.items[*].metadata.labels.app}")
	if got != "ds" {
		t.Errorf("on the drained node are pods of %q, want ds alone", got)
	}
	c.kubectl(t, "uncordon", node)
}

// rejoin deletes the Node of a host that runs. After a reboot the host joins again, and
// its pods have addresses of the range that the new Node has.
func (c *shared) rejoin(t *testing.T, ns, node string) {
	t.Helper()
	c.kubectl(t, "delete", "node", node)
	c.mullion(t, "node", "reboot", node)
	eventually(t, time.Minute, "the DaemonSet's pod on the node", func() error {
		ip, err := c.kubectlErr(t.Context(), "get", "pods", "-n", ns, "-l", "app=ds", "--field-selector",
			"spec.nodeName="+node+",status.phase=Running", "-o", "jsonpath={.items[*].status.podIP}")
		if err != nil {
			return err
		}
		cidr, err := c.kubectlErr(t.Context(), "get", "node", node, "-o", "jsonpath={.spec.podCIDR}")
		if prefix := strings.TrimSuffix(cidr, "0/24"); err == nil && (ip == "" || !strings.HasPrefix(ip, prefix)) {
			err = fmt.Errorf("it has the address %q, want one of %s", ip, cidr)
		}
		return err
	})
}

// TestExec runs programs on hosts of both systems.
func TestExec(t *testing.T) {
	t.Parallel()
	c := up(t)
	run := func(stdin string, args ...string) (string, error) {
		return c.try(t.Context(), stdin, append([]string{"exec", "--name", c.name, "--data-dir", c.dir}, args...)...)
	}
	for _, tc := range []struct {
		name, stdin, want, failure string
		args                       []string
	}{
		{name: "PowerShell", want: "Up",
			args: []string{"win-1", "--", "powershell", "(Get-NetAdapter 'vEthernet (Ethernet)').Status"}},
		{name: "the administrator", args: []string{"win-1", "--", "whoami"}, want: `win-1\administrator`},
		{name: "exit code", args: []string{"win-1", "--", "cmd", "/c", "exit 7"}, failure: "exit status 7"},
		{name: "unknown program", args: []string{"win-1", "--", "nosuch"}, failure: "exit status 127"},
		{name: "standard input", stdin: "hello\n", args: []string{"win-1", "-i", "--", "findstr", "hell"},
			want: "hello"},
		{name: "no standard input", stdin: "hello\n", args: []string{"win-1", "--", "findstr", "hell"},
			failure: "exit status 1"},
		{name: "terminal", stdin: "exit 5\r\n", args: []string{"win-1", "-it", "--", "cmd"}, failure: "exit status 5"},
		{name: "no way to the machine", args: []string{"win-1", "--", "cmd", "/c", `dir \\?\unix\node`},
			failure: "exit status 1"},
		{name: "Linux", args: []string{"linux-1", "--", "sh", "-c", "hostname; pwd"}, want: "linux-1\n/"},
		{name: "cgroup", args: []string{"linux-1", "--", "sh", "-c", "grep -q :/init$ /proc/self/cgroup && exit 4"},
			failure: "exit status 4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := run(tc.stdin, tc.args...)
			failure := ""
			if err != nil {
				failure = err.Error()
			}
			got := strings.TrimSpace(strings.ReplaceAll(out, "\r", ""))
			if failure != tc.failure || strings.Contains(got, "mullion: error") || tc.want != "" && got != tc.want {
				t.Errorf("%q, %q; want %q, %q", got, failure, tc.want, tc.failure)
			}
		})
	}
}
