// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package podreason

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func win(name, release string, taints ...policy.Taint) policy.Node {
	b, err := winver.Parse(release)
	if err != nil {
		panic(err)
	}
	return policy.Node{
		Name:     name,
		OS:       "windows",
		Build:    b,
		Taints:   taints,
		Handlers: []string{"", "runhcs-wcow-process"},
	}
}

func labelled(n policy.Node, key, value string) policy.Node {
	n.Labels = map[string]string{corev1.LabelOSStable: n.OS, key: value}
	return n
}

func lin(name string) policy.Node { return policy.Node{Name: name, OS: "linux"} }

// waiting is a pod that the scheduler has found no node for.
func waiting(image string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
		Spec: corev1.PodSpec{
			OS: &corev1.PodOS{Name: corev1.Windows}, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
			Containers: []corev1.Container{{Name: "web", Image: image}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// on puts the pod on a node, which said something about its container.
func on(node, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Conditions = node,
			[]corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Image: "sha256:x",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

func class(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RuntimeClassName = &name }
}

func linuxPod(p *corev1.Pod) {
	p.Spec.OS, p.Spec.NodeSelector = nil, map[string]string{corev1.LabelOSStable: "linux"}
}

const (
	servercore = "mcr.microsoft.com/windows/servercore:ltsc2019"
	noMatch    = `Back-off pulling image "x": ErrImagePull: rpc error: code = NotFound desc = failed to pull and ` +
		`unpack image "x": no match for platform in manifest: not found`
	mismatch = "hcs::CreateComputeSystem p: The container operating system does not match the host operating system."
)

// TestJudge shows what users read, for each reason and for states that have
// none.
func TestJudge(t *testing.T) {
	tainted := policy.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"}
	classes := map[string]policy.RuntimeClass{
		"windows-2019": {Handler: "runhcs-wcow-process",
			NodeSelector: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: "10.0.17763"}},
		"hyperv": {Handler: "runhcs-wcow-hypervisor", NodeSelector: map[string]string{corev1.LabelOSStable: "windows"}},
		"mine":   {Handler: "mine"},
	}
	mixed := []policy.Node{lin("l"), win("a", "2019"), win("b", "2022")}
	cordoned := policy.Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}
	unknown := win("a", "2019")
	unknown.Handlers = nil
	startError := waiting("example.test/app:1", on("b", "CrashLoopBackOff", "back-off 10s restarting failed container"),
		func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: "StartError", ExitCode: 128, Message: mismatch}
		})
	crashed := startError.DeepCopy()
	crashed.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: "Error", ExitCode: 1, Message: "x"}
	var out bytes.Buffer
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []policy.Node
		image policy.Image
		want  string // the reason
	}{
		{"build of a base image", waiting("mcr.microsoft.com/windows/servercore:ltsc2016"), mixed, policy.Image{},
			BuildMismatch},
		{"selector", waiting(servercore, func(p *corev1.Pod) { p.Spec.NodeSelector["pool"] = "web" }),
			[]policy.Node{labelled(win("a", "2019"), "pool", "blue")}, policy.Image{}, NoSuchLabels},
		{"build by the tag", waiting("example.test/app:1-ltsc2025"), mixed, policy.Image{}, BuildMismatch},
		{"build by the registry", waiting("example.test/app:1"), mixed,
			policy.Image{Platforms: []policy.Platform{{OS: "windows", Arch: "amd64", OSVersion: "10.0.26100.1"}}},
			BuildMismatch},
		{"index by the registry", waiting("example.test/app:1"), mixed,
			policy.Image{Index: true,
				Platforms: []policy.Platform{{OS: "linux"}, {OS: "windows", OSVersion: "10.0.14393.1"},
					{OS: "windows", OSVersion: "10.0.26100.1"}}}, BuildMismatch},
		{"selected build", waiting(servercore, func(p *corev1.Pod) {
			p.Spec.NodeSelector[corev1.LabelWindowsBuild] = "10.0.26100"
		}), mixed, policy.Image{}, BuildMismatch},
		{"no Windows node", waiting(servercore), []policy.Node{lin("l")}, policy.Image{}, NoWindowsNode},
		{"no Linux node", waiting("nginx", linuxPod), []policy.Node{win("a", "2019")}, policy.Image{}, NoLinuxNode},
		{"taint", waiting(servercore), []policy.Node{lin("l"), win("a", "2019", tainted)}, policy.Image{},
			TaintTolerate},
		{"taint, and the build too", waiting("mcr.microsoft.com/windows/servercore:ltsc2016"),
			[]policy.Node{win("a", "2019", tainted)}, policy.Image{}, BuildMismatch},
		{"Hyper-V", waiting(servercore, class("hyperv")), mixed, policy.Image{}, HandlerMissing},
		{"handler on the node", waiting(servercore, class("mine"), on("a", "ContainerCreating", "")), mixed,
			policy.Image{}, HandlerMissing},
		{"pulled for another build", waiting("mcr.microsoft.com/windows/servercore:ltsc2022",
			on("a", "ImagePullBackOff", noMatch)), mixed, policy.Image{}, BuildMismatch},
		{"pulled where no node fits", waiting("mcr.microsoft.com/windows/servercore:ltsc2025",
			on("a", "ImagePullBackOff", noMatch)), mixed, policy.Image{}, BuildMismatch},
		{"started for another build", startError, mixed, policy.Image{}, BuildMismatch},
		{"Linux image on Windows", waiting("nginx", linuxPod, on("a", "ErrImagePull", noMatch)), mixed,
			policy.Image{}, WrongOS},
		{"unknown image on Windows", waiting("example.test/app:1", on("a", "ErrImagePull", noMatch),
			func(p *corev1.Pod) {
				p.Spec.OS, p.Spec.NodeSelector = nil, nil
			}), mixed, policy.Image{}, WrongOS},
		{"Windows image on Linux", waiting(servercore, on("l", "ErrImagePull", noMatch)), mixed,
			policy.Image{}, WrongOS},
		{"very many containers", waiting(servercore, func(p *corev1.Pod) {
			for i := range 60 {
				p.Spec.Containers = append(p.Spec.Containers,
					corev1.Container{Name: fmt.Sprintf("c%d", i),
						Image: "mcr.microsoft.com/windows/nanoserver:ltsc2025"})
			}
		}), []policy.Node{win("a", "2019")}, policy.Image{}, BuildMismatch},

		{"it fits", waiting(servercore), mixed, policy.Image{}, ""},
		{"no processor is free", waiting("example.test/app:1"), mixed, policy.Image{}, ""},
		{"a Linux pod", waiting("nginx", linuxPod), mixed, policy.Image{}, ""},
		{"nodes not known", waiting("mcr.microsoft.com/windows/servercore:ltsc2016"), nil, policy.Image{}, ""},
		{"drained node", waiting(servercore), []policy.Node{win("a", "2019", cordoned)}, policy.Image{}, ""},
		{"its class's handler is there", waiting(servercore, class("windows-2019")), mixed, policy.Image{}, ""},
		{"handlers not known", waiting(servercore, class("hyperv")), []policy.Node{unknown}, policy.Image{}, ""},
		{"class not known", waiting(servercore, class("other")), mixed, policy.Image{}, ""},
		{"it crashes", crashed, mixed, policy.Image{}, ""},
		{"no such image", waiting("example.test/app:1", on("a", "ErrImagePull", "not found")), mixed,
			policy.Image{}, ""},
		{"node gone", waiting(servercore, on("z", "ErrImagePull", noMatch)), mixed, policy.Image{}, ""},
		{"gated", waiting("mcr.microsoft.com/windows/servercore:ltsc2016", func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
		}), mixed, policy.Image{}, ""},
		{"ended", waiting(servercore, on("l", "ErrImagePull", noMatch), func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
		}), mixed, policy.Image{}, ""},
	} {
		facts := policy.Facts{Kubernetes: 36, Nodes: tt.nodes, RuntimeClasses: classes}
		if tt.image.Platforms != nil {
			facts.Images = map[string]policy.Image{tt.pod.Spec.Containers[0].Image: tt.image}
		}
		object, err := decode(tt.pod)
		if err != nil {
			t.Fatal(err)
		}
		v := judge(rule.New(facts), tt.pod, object, facts)
		if v.Reason != tt.want {
			t.Errorf("%s: %+v, want %q", tt.name, v, tt.want)
		}
		if len(v.Message) > 1024 {
			t.Errorf("%s: the message has %d bytes", tt.name, len(v.Message))
		}
		fmt.Fprintf(&out, "%s\n    %s\n    %s\n", tt.name, v.Reason, v.Message)
	}
	testenv.Golden(t, "verdicts.txt", out.Bytes())
}

func TestPatch(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	bad := verdict{BuildMismatch, "no node"}
	have := func(status corev1.ConditionStatus, reason, message string, told time.Duration) *corev1.Pod {
		at := metav1.NewTime(now.Add(-told))
		return waiting("i", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type:               Condition,
				Status:             status,
				Reason:             reason,
				Message:            message,
				LastProbeTime:      at,
				LastTransitionTime: at,
			})
		})
	}
	patch := func(status, reason, message, transition string) string {
		return fmt.Sprintf(`{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"placement.mullion.dev/Fits",`+
			`"status":"%s","reason":"%s","message":"%s","lastProbeTime":"2026-05-01T12:00:00Z",`+
			`"lastTransitionTime":"2026-05-01T%sZ"}]}}`, status, reason, message, transition)
	}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		v     verdict
		want  string
		event bool
	}{
		{"first", waiting("i"), bad, patch("False", BuildMismatch, "no node", "12:00:00"), true},
		{"said", have("False", BuildMismatch, "no node", time.Minute), bad, "", false},
		{"other message", have("False", BuildMismatch, "old", time.Minute), bad,
			patch("False", BuildMismatch, "no node", "11:59:00"), true},
		{"other reason", have("False", TaintTolerate, "no node", time.Minute), bad,
			patch("False", BuildMismatch, "no node", "11:59:00"), true},
		{"the event grows old", have("False", BuildMismatch, "no node", 46*time.Minute), bad,
			patch("False", BuildMismatch, "no node", "11:14:00"), true},
		{"fits after all", have("False", BuildMismatch, "no node", time.Minute), verdict{},
			patch("True", "Fits", "", "12:00:00"), false},
		{"goes on fitting", have("True", "Fits", "", 60*time.Minute), verdict{}, "", false},
		{"fits no more", have("True", "Fits", "", time.Minute), bad,
			patch("False", BuildMismatch, "no node", "12:00:00"), true},
		{"always fitted", waiting("i"), verdict{}, "", false},
	} {
		got, event, err := statusPatch(tt.pod, tt.v, now)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tt.want || event != tt.event {
			t.Errorf("%s: %s, event %t\nwant %s, %t", tt.name, got, event, tt.want, tt.event)
		}
	}
}

// TestStrip keeps the cache small: it holds every pod of the cluster.
func TestStrip(t *testing.T) {
	running := waiting("i", on("a", "", ""), func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	})
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		kept bool
	}{
		"runs":         {running, false},
		"waits":        {waiting("i"), true},
		"refused":      {waiting("i", on("a", "ErrImagePull", noMatch)), true},
		"crashes":      {waiting("i", on("a", "CrashLoopBackOff", "x")), false},
		"being set up": {waiting("i", on("a", "ContainerCreating", ""), class("c")), true},
	} {
		got, err := controller.Strip(needsReason)(tt.pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		p := got.(*corev1.Pod)
		if (len(p.Spec.Containers) > 0) != tt.kept || needsReason(p) != tt.kept || p.UID != "u" ||
			!strings.HasPrefix(p.Name, "p") {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
