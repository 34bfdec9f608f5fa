// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/manager/controller/podlimit"
	"github.com/mullion-k8s/mullion/internal/manager/controller/podreason"
	"github.com/mullion-k8s/mullion/internal/manager/controller/runtimeclass"
	"github.com/mullion-k8s/mullion/internal/manager/controller/windowsnode"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// cluster is a control plane on a loopback port, without nodes.
type cluster struct {
	t      *testing.T
	server *controlplanetest.Server
	client kubernetes.Interface // an administrator's
}

// newCluster starts one: upstream's components alone, or with our manager in the
// same process.
func newCluster(t *testing.T, managed bool) *cluster {
	t.Helper()
	server := controlplanetest.Run(t, func(c *config.Config) {
		if managed {
			c.AdmissionPort = controlplanetest.FreePort(t)
		}
	})
	return &cluster{t: t, server: server, client: server.Admin()}
}

// user is a client that may do what the rules say, and nothing else.
func (c *cluster) user(name string, rules []rbacv1.PolicyRule) kubernetes.Interface {
	c.t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	if _, err := c.client.RbacV1().ClusterRoles().Create(c.t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName,
		Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(c.t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	cfg := c.server.REST()
	cfg.Impersonate.UserName = name
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// Facts asks the API server each time; there are few nodes here.
func (c *cluster) Facts(ctx context.Context, _ string, _ *policy.Parsed) (policy.Facts, []string) {
	facts := policy.Facts{Kubernetes: 36, RuntimeClasses: map[string]policy.RuntimeClass{}}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return policy.Facts{}, nil
	}
	for _, n := range nodes.Items {
		node := policy.Node{Name: n.Name, OS: n.Labels[corev1.LabelOSStable]}
		if b, err := winver.Parse(n.Labels[corev1.LabelWindowsBuild]); err == nil {
			node.Build = b
		}
		for _, t := range n.Spec.Taints {
			node.Taints = append(node.Taints, policy.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
		facts.Nodes = append(facts.Nodes, node)
	}
	return facts, nil
}

// start runs the controllers, each with its own rights alone, until the
// test ends.
func (c *cluster) start(log *bytes.Buffer) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	logger := slog.New(slog.NewTextHandler(&lockedWriter{w: log, lock: make(chan struct{}, 1)}, nil))
	classes, nodes, reasons := c.user("runtimeclass", runtimeclass.Rules()),
		c.user("windowsnode", windowsnode.Rules()), c.user("podreason", podreason.Rules())
	own := func(client kubernetes.Interface) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactory(client, 0)
	}
	type runner interface{ Run(context.Context) error }
	all := []runner{
		runtimeclass.New(classes, runtimeclass.Config{Log: logger, Informers: own(classes)}),
		windowsnode.New(nodes, windowsnode.Config{Log: logger, Informers: own(nodes),
			Taint: policy.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"}}),
		podreason.New(reasons, podreason.Config{Log: logger, Facts: c, Informers: own(reasons)}),
		podlimit.New(c.user("podlimit", podlimit.Rules()), logger),
	}
	ended := make(chan error, len(all))
	for _, r := range all {
		go func() { ended <- r.Run(ctx) }()
	}
	c.t.Cleanup(func() {
		cancel()
		for range all {
			if err := <-ended; err != nil {
				c.t.Error(err)
			}
		}
		if c.t.Failed() {
			c.t.Logf("controllers:\n%s", log.String())
		}
	})
}

// lockedWriter takes the log of several controllers.
type lockedWriter struct {
	w    *bytes.Buffer
	lock chan struct{}
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.lock <- struct{}{}
	defer func() { <-l.lock }()
	return l.w.Write(p)
}

// join makes a node as a kubelet does that knows nothing of the build's label.
func (c *cluster) join(name, os, kernel string) {
	c.t.Helper()
	ctx := c.t.Context()
	n, err := c.client.CoreV1().Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os,
			corev1.LabelHostname: name}}}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	testenv.Eventually(c.t, "status of "+name, func() error {
		n.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: os, KernelVersion: kernel, Architecture: "amd64"}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		if _, err := c.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
			n, _ = c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			return err
		}
		return nil
	})
}

// class waits until a RuntimeClass is as wanted: the keys of its tolerations.
func (c *cluster) class(name string, tolerates ...string) {
	c.t.Helper()
	testenv.Eventually(c.t, "RuntimeClass "+name, func() error {
		rc, err := c.client.NodeV1().RuntimeClasses().Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if rc.Scheduling == nil {
			return fmt.Errorf("handler %s, no scheduling yet", rc.Handler)
		}
		var got []string
		for _, t := range rc.Scheduling.Tolerations {
			got = append(got, t.Key)
		}
		if rc.Handler != runtimeclass.Handler || !slices.Equal(got, tolerates) {
			return fmt.Errorf("handler %s, tolerations %q", rc.Handler, got)
		}
		return nil
	})
}

// condition waits until a pod was told something.
func (c *cluster) condition(pod, want string) {
	c.t.Helper()
	testenv.Eventually(c.t, "condition of "+pod, func() error {
		p, err := c.client.CoreV1().Pods("default").Get(c.t.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, cond := range p.Status.Conditions {
			if got := string(cond.Status) + " " + cond.Reason; cond.Type == podreason.Condition && got == want {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v, want %s", p.Status.Conditions, want)
	})
}

func (c *cluster) pod(name, image string, tolerates bool) {
	c.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
		Containers: []corev1.Container{{Name: "web", Image: image}},
	}}
	if tolerates {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "os", Value: "windows", Effect: corev1.TaintEffectNoSchedule}}
	}
	// The namespace's service account is made a moment after the namespace.
	testenv.Eventually(c.t, "create pod "+name, func() error {
		_, err := c.client.CoreV1().Pods("default").Create(c.t.Context(), p, metav1.CreateOptions{})
		return err
	})
}

// TestServer lets all controllers work on a real API server, with a real
// scheduler beside them.
func TestServer(t *testing.T) {
	c := newCluster(t, false)
	ctx := t.Context()
	stale := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "windows-2022",
		Labels: map[string]string{"app.kubernetes.io/managed-by": "mullion"}}, Handler: "old"}
	foreign := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "windows-2025"},
		Handler: "example-container-runtime-handler"}
	for _, rc := range []*nodev1.RuntimeClass{stale, foreign} {
		if _, err := c.client.NodeV1().RuntimeClasses().Create(ctx, rc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	c.start(&log)
	c.join("lin", "linux", "6.1.0")
	c.pod("none", "mcr.microsoft.com/windows/servercore:ltsc2019", true)
	c.condition("none", "False "+podreason.NoWindowsNode)

	c.join("a", "windows", "10.0.17763.7919")
	c.join("b", "windows", "10.0.20348.4294")
	c.join("d", "windows", "10.0.26100.6899")
	c.class("windows-2019", "os")
	c.class("windows-2022", "os") // whose handler was another
	testenv.Eventually(c.t, "event about the foreign class", func() error {
		events, err := c.client.CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=windows-2025,reason=NotManaged"})
		if err == nil && len(events.Items) != 1 {
			err = fmt.Errorf("%d events", len(events.Items))
		}
		return err
	})
	if rc, err := c.client.NodeV1().RuntimeClasses().Get(ctx, "windows-2025", metav1.GetOptions{}); err != nil ||
		rc.Scheduling != nil || rc.Handler != foreign.Handler {
		t.Errorf("foreign class: %+v, %v", rc, err)
	}
	c.condition("none", "True Fits")

	c.pod("mismatch", "mcr.microsoft.com/windows/servercore:ltsc2016", true)
	c.pod("taint", "mcr.microsoft.com/windows/servercore:ltsc2019", false)
	c.condition("mismatch", "False "+podreason.BuildMismatch)
	c.condition("taint", "False "+podreason.TaintTolerate)
	testenv.Eventually(c.t, "kubectl describe", func() error {
		out, err := exec.CommandContext(ctx, testenv.Bin("mullion-kube"), "kubectl", "--kubeconfig",
			c.server.Config.AdminKubeconfig(), "describe", "pod", "mismatch").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for _, want := range []string{"placement.mullion.dev/Fits", "WindowsBuildMismatch",
			"is built for Windows Server 2016 10.0.14393 (no updates after 2027-01-11); no node can run it. " +
				"Nodes: Windows Server 2019 10.0.17763, " +
				"Windows Server 2022 10.0.20348", "use an image for the nodes' build, or add nodes"} {
			if !bytes.Contains(out, []byte(want)) {
				return fmt.Errorf("no %q in:\n%s", want, out)
			}
		}
		t.Logf("%s", out[bytes.Index(out, []byte("Events:")):])
		return nil
	})

	c.join("e", "windows", "10.0.14393.8519")
	c.condition("mismatch", "True Fits")
	c.class("windows-2016", "os")
	// An administrator takes the taint away: it comes back; a last node goes: its class stays.
	testenv.Eventually(c.t, "removal of a taint", func() error {
		n, err := c.client.CoreV1().Nodes().Get(ctx, "e", metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Taints = nil
		_, err = c.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	testenv.Eventually(c.t, "the taint is back", func() error {
		n, err := c.client.CoreV1().Nodes().Get(ctx, "e", metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "os" }) {
			err = errors.New("no taint")
		}
		return err
	})
	if err := c.client.CoreV1().Nodes().Delete(ctx, "e", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.pod("late", "mcr.microsoft.com/windows/servercore:ltsc2016", true)
	c.condition("late", "False "+podreason.BuildMismatch)
	c.class("windows-2016", "os")
}
