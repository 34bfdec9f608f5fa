// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/manager/controller/windowsnode"
)

// image is never pulled: the test runs what is in it.
const image = "mullion/mullion:test"

// node is one that has a kubelet, as far as the API knows.
func node(name, os, kernel string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os,
		corev1.LabelArchStable: "amd64", corev1.LabelHostname: name}}}
	n.Status.NodeInfo.OperatingSystem, n.Status.NodeInfo.KernelVersion = os, kernel
	n.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.4"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// pod says nothing about Windows but its image.
func pod(name, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

const (
	windowsImage = "mcr.microsoft.com/windows/servercore:ltsc2022"
	linuxImage   = "127.0.0.1:1/nginx:1.29" // no registry answers there
)

func (c *cluster) create(p *corev1.Pod) (*corev1.Pod, error) {
	return c.client.CoreV1().Pods(p.Namespace).Create(c.t.Context(), p, metav1.CreateOptions{})
}

// node makes one.
func (c *cluster) node(n *corev1.Node) {
	c.t.Helper()
	api, status := c.client.CoreV1().Nodes(), n.Status
	made, err := api.Create(c.t.Context(), n, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually("node "+n.Name, func() error {
		made.Spec.Taints = nil // not-ready, which the API server adds
		if made, err = api.Update(c.t.Context(), made, metav1.UpdateOptions{}); err == nil {
			made.Status = status
			made, err = api.UpdateStatus(c.t.Context(), made, metav1.UpdateOptions{})
		}
		if err == nil {
			return nil
		}
		// Controllers write, too.
		var again error
		if made, again = api.Get(c.t.Context(), n.Name, metav1.GetOptions{}); again != nil {
			c.t.Fatal(again)
		}
		return err
	})
}

// prepare makes nodes and a namespace of users.
func (c *cluster) prepare() {
	c.t.Helper()
	ctx := c.t.Context()
	for _, n := range []*corev1.Node{
		node(linuxNode, "linux", "6.1.0"), node("win-2019", "windows", "10.0.17763.6532"),
		node("win-2022", "windows", "10.0.20348.2700"),
	} {
		c.node(n)
	}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	// What the controller manager makes by itself is there.
	c.eventually("the nodes' own annotations", func() error {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if _, has := n.Annotations[corev1.ObjectTTLAnnotationKey]; !has {
				return fmt.Errorf("%s: %v", n.Name, n.Annotations)
			}
		}
		return nil
	})
	c.eventually("the rules of aggregated ClusterRoles", c.aggregated)
	c.eventually("the finalizer of the services' network", func() error {
		network, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil && len(network.Finalizers) == 0 {
			err = fmt.Errorf("%s has none yet", network.Name)
		}
		return err
	})
	c.eventually("the namespaces' own objects", func() error {
		for _, ns := range []string{"default", "apps", "kube-system"} {
			if _, err := c.client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
			if _, err := c.client.CoreV1().ConfigMaps(ns).Get(ctx, "kube-root-ca.crt",
				metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestInstall is the life of an installation. Its parts stand in the order of
// time.
func TestInstall(t *testing.T) {
	c := newCluster(t)
	c.prepare()
	c.kubelet()
	before := c.snapshot()

	var m *running
	part := func(name string, f func(*cluster)) {
		t.Helper()
		if !t.Run(name, func(t *testing.T) {
			inner := *c
			inner.t = t
			f(&inner)
		}) && m != nil {
			t.Logf("the manager after %s:\n%s", name, m.log)
		}
	}
	part("report", (*cluster).report)
	c.must("install", "--image", image, "--replicas", "1", "--wait=false")
	c.dns()
	m = c.manager()
	part("again", func(c *cluster) {
		c.must("install", "--image", image, "--replicas", "1") // waits for the registration
		was := c.versions()
		if errs := c.must("install", "--image", image, "--replicas", "1"); strings.Contains(errs, "created") ||
			strings.Contains(errs, "changed\n") && strings.Count(errs, "changed\n") != strings.Count(errs,
				"unchanged\n") {
			c.t.Error(errs)
		}
		if is := c.versions(); !maps.Equal(was, is) {
			c.t.Errorf("something was written\n%v\n%v", was, is)
		}
	})
	part("placement", (*cluster).placement)
	part("warnings", func(c *cluster) { c.refusals(false) })
	part("nodes", (*cluster).nodes)
	part("reason", (*cluster).reason)
	part("gmsa", (*cluster).gmsa)
	part("upgrade", func(c *cluster) { m = c.upgrade(t, m) })
	part("refusals", func(c *cluster) { c.refusals(true) })
	part("conflict", (*cluster).conflict)
	part("killed", func(c *cluster) {
		if text := lacks(m.program); text != "" {
			c.t.Errorf("the manager lacked rights:\n%s", text)
		}
		m.end(syscall.SIGKILL)
		c.down()
	})
	part("uninstall", func(c *cluster) { c.uninstall(before) })
	part("interrupted", func(c *cluster) { c.interrupted(before) })
	part("others", func(c *cluster) { c.others(before) })
	part("by hand", (*cluster).byHand)
}

// upgrade installs with other settings: the Deployment alone changes, and its
// next manager, which lives until the whole test ends, follows them.
func (c *cluster) upgrade(t *testing.T, old *running) *running {
	c.t.Helper()
	errs := c.must("install", "--image", image, "--replicas", "1", "--windows-taint", "os=windows:NoSchedule",
		"--rules-failure-policy", "Fail", "--admission", "enforce", "--wait=false")
	if n := strings.Count(errs, " changed\n"); n != 1 {
		c.t.Errorf("%d objects changed, want the Deployment alone\n%s", n, errs)
	}
	old.end(syscall.SIGTERM)
	if text := lacks(old.program); text != "" {
		c.t.Errorf("the manager lacked rights:\n%s", text)
	}
	next := *c
	next.t = t // it lives longer than this part
	m := next.manager()
	c.must("install", "--image", image, "--replicas", "1", "--windows-taint", "os=windows:NoSchedule",
		"--rules-failure-policy", "Fail", "--admission", "enforce")
	c.eventually("the taint", func() error {
		n, err := c.client.CoreV1().Nodes().Get(c.t.Context(), "win-2022", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "os" ||
			n.Annotations[windowsnode.TaintAnnotation] != "os=windows:NoSchedule" {
			return fmt.Errorf("%+v %v", n.Spec.Taints, n.Annotations)
		}
		return nil
	})
	c.eventually("tolerations that follow", func() error {
		p, err := c.create(pod("tolerates", windowsImage))
		if err != nil {
			return err
		}
		defer c.remove(p)
		for _, tol := range p.Spec.Tolerations {
			if tol.Key == "os" && tol.Value == "windows" {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Spec.Tolerations)
	})
	return m
}

// uninstall leaves nothing behind.
func (c *cluster) uninstall(before map[string]string) {
	c.t.Helper()
	errs := c.must("uninstall", "--dry-run")
	if !strings.Contains(errs, "Namespace mullion-system removed") || len(c.versions()) == 0 {
		c.t.Errorf("the dry run\n%s", errs)
	}
	errs = c.must("uninstall")
	if d := difference(before, c.snapshot()); d != "" {
		c.t.Errorf("left behind:\n%s\n%s", d, errs)
	}
	if errs := c.must("uninstall"); !strings.Contains(errs, "mullion is not installed") {
		c.t.Error(errs)
	}
}

func (c *cluster) remove(p *corev1.Pod) {
	c.t.Helper()
	none := int64(0)
	if err := c.client.CoreV1().Pods(p.Namespace).Delete(c.t.Context(), p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		c.t.Error(err)
	}
}

// report: of what runs before the installation it lists what enforce would refuse,
// and nothing is changed.
func (c *cluster) report() {
	p, err := c.create(impossible())
	if err != nil {
		c.t.Fatal(err)
	}
	defer c.remove(p)
	before := c.snapshot()
	if errs := c.must("install", "--report"); !strings.Contains(errs, "--admission enforce would refuse 1,") {
		c.t.Error(errs)
	}
	if text := difference(before, c.snapshot()); text != "" {
		c.t.Errorf("the report has changed:\n%s", text)
	}
}

// impossible is a pod that no Windows node runs.
func impossible() *corev1.Pod {
	p := pod("impossible", windowsImage)
	p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "C:"}}
	return p
}

// placement: the webhooks answer.
func (c *cluster) placement() {
	c.eventually("a Windows pod that is placed", func() error {
		p, err := c.create(pod("windows", windowsImage))
		if err != nil {
			return err
		}
		defer c.remove(p)
		if p.Spec.OS == nil || p.Spec.OS.Name != corev1.Windows || p.Annotations["placement.mullion.dev/reason"] == "" {
			return fmt.Errorf("os %+v, node selector %v, annotations %v", p.Spec.OS, p.Spec.NodeSelector, p.Annotations)
		}
		return nil
	})
	p, err := c.create(pod("linux", linuxImage))
	if err != nil {
		c.t.Fatal(err)
	}
	if p.Spec.NodeSelector[corev1.LabelOSStable] != "linux" {
		c.t.Errorf("the Linux pod is not kept off Windows nodes: node selector %v, annotations %v", p.Spec.NodeSelector,
			p.Annotations)
	}
	c.remove(p)
}

// refusals: what cannot run is refused if it should be, and else admitted.
func (c *cluster) refusals(refuses bool) {
	for _, tt := range []struct {
		pod  *corev1.Pod
		want []string
	}{
		{impossible(), []string{"WIN216"}},
		{pod("nowhere", "mcr.microsoft.com/windows/nanoserver:ltsc2025"), []string{"26100", "20348"}},
	} {
		c.eventually(tt.pod.Name, func() error { // a new manager may not answer yet
			p, err := c.create(tt.pod.DeepCopy())
			if err == nil {
				c.remove(p)
			}
			if !refuses {
				return err
			}
			if !apierrors.IsForbidden(err) {
				return fmt.Errorf("it was admitted: %w", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					return fmt.Errorf("%w, want %q", err, want)
				}
			}
			return nil
		})
	}
}

// nodes: the controllers work.
func (c *cluster) nodes() {
	for name, build := range map[string]string{"windows-2019": "10.0.17763", "windows-2022": "10.0.20348"} {
		c.eventually("RuntimeClass "+name, func() error {
			rc, err := c.client.NodeV1().RuntimeClasses().Get(c.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := rc.Scheduling.NodeSelector[corev1.LabelWindowsBuild]; got != build {
				return fmt.Errorf("build %q", got)
			}
			return nil
		})
	}
}

// conflict: what others have set is named, and taken over only if asked.
func (c *cluster) conflict() {
	ctx := c.t.Context()
	deployments := c.client.AppsV1().Deployments(install.DefaultNamespace)
	d, err := deployments.Get(ctx, install.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	three := int32(0)
	d.Spec.Replicas = &three
	if _, err := deployments.Update(ctx, d, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
		c.t.Fatal(err)
	}
	args := []string{"install", "--image", image, "--replicas", "1", "--windows-taint", "os=windows:NoSchedule",
		"--rules-failure-policy", "Fail", "--admission", "enforce", "--wait=false"}
	code, errs := c.mullion(ctx, args...)
	if code != 1 || !strings.Contains(errs, ".spec.replicas is set by \"kubectl-edit\"") ||
		!strings.Contains(errs, "--force-conflicts") {
		c.t.Errorf("exit code %d\n%s", code, errs)
	}
	c.must(append(args, "--force-conflicts")...)
}

// down: what holds when no manager answers. The failure policy is Fail.
func (c *cluster) down() {
	_, err := c.create(pod("refused", linuxImage))
	if err == nil || !strings.Contains(err.Error(), "rules.mullion.dev") {
		c.t.Errorf("failure policy Fail: %v", err)
	}
	// Exempt namespaces, the cluster's own pods and the manager's are not blocked.
	ns, err := c.client.CoreV1().Namespaces().Get(c.t.Context(), "apps", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	ns.Labels["admission.mullion.dev/disabled"] = "true"
	if ns, err = c.client.CoreV1().Namespaces().Update(c.t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("a pod of a namespace that opted out", func() error {
		p, err := c.create(pod("opted-out", linuxImage))
		if err == nil {
			c.remove(p)
		}
		return err
	})
	delete(ns.Labels, "admission.mullion.dev/disabled")
	if _, err = c.client.CoreV1().Namespaces().Update(c.t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	system := pod("system", linuxImage)
	system.Namespace = "kube-system"
	p, err := c.create(system)
	if err != nil {
		c.t.Fatal(err)
	}
	c.remove(p)

	// With Ignore, the default, pods are admitted as they are.
	c.rulesPolicy(admissionregistrationv1.Ignore)
	c.eventually("a pod that is admitted although no manager runs", func() error {
		p, err := c.create(pod("admitted", windowsImage))
		if err == nil {
			c.remove(p)
		}
		return err
	})
	c.rulesPolicy(admissionregistrationv1.Fail) // what comes next works in any case
}

// rulesPolicy sets the failure policy of webhooks that no manager maintains, as a
// manager with this policy would register it.
func (c *cluster) rulesPolicy(p admissionregistrationv1.FailurePolicyType) {
	c.t.Helper()
	api := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	hook, err := api.Get(c.t.Context(), "mullion", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range hook.Webhooks {
		if strings.HasSuffix(hook.Webhooks[i].Name, "rules.mullion.dev") {
			hook.Webhooks[i].FailurePolicy = &p
			hook.Webhooks[i].ObjectSelector = nil
		}
	}
	if _, err := api.Update(c.t.Context(), hook, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// interrupted walks both commands: each is ended after every one of its steps,
// and called again.
func (c *cluster) interrupted(before map[string]string) {
	cfg := install.Config{Image: image, Replicas: 1}
	target := c.target()
	walk := func(name string, do func(ctx context.Context, say func(install.Step)) error) {
		for n := 1; ; n++ {
			ctx, cancel := context.WithCancel(c.t.Context())
			steps := 0
			err := do(ctx, func(s install.Step) {
				if s.Action == install.Created || s.Action == install.Removed {
					steps++
				}
				if steps == 1 {
					cancel()
				}
			})
			ended := ctx.Err() != nil
			cancel()
			if !ended && err != nil {
				c.t.Fatalf("%s, call %d: %v", name, n, err)
			}
			if !ended {
				c.t.Logf("%s was interrupted %d times", name, n-1)
				return
			}
		}
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	cancel()
	for _, command := range []string{"install", "uninstall"} {
		if code, errs := c.mullion(ctx, command); code != 130 || !strings.Contains(errs, "interrupted") {
			c.t.Errorf("%s after Ctrl-C: exit code %d\n%s", command, code, errs)
		}
	}
	walk("install", func(ctx context.Context, say func(install.Step)) error {
		return install.Apply(ctx, target, cfg, install.Options{Say: say})
	})
	walk("uninstall", func(ctx context.Context, say func(install.Step)) error {
		return install.Remove(ctx, target, install.RemoveOptions{Say: say})
	})
	if d := difference(before, c.snapshot()); d != "" {
		c.t.Errorf("left behind:\n%s", d)
	}
}
