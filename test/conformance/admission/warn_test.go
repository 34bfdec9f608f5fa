// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// upstreamPod is a pod that a test of Kubernetes creates and looks at afterwards.
type upstreamPod struct {
	test    string // in k8s.io/kubernetes/test/e2e
	refused bool   // by --admission enforce: the test wants to see the kubelet refuse it
	spec    corev1.PodSpec
}

// e2eImage is like those of upstream's tests: its name tells nothing about Windows.
const e2eImage = "127.0.0.1:1/e2e-test-images/nonroot:1.4"

// asUser is runAsUserNamePod of windows/security_context.go.
func asUser(name string, edit func(*corev1.PodSpec)) corev1.PodSpec {
	s := corev1.PodSpec{
		NodeSelector: map[string]string{"kubernetes.io/os": "windows"},
		Containers: []corev1.Container{{
			Name:            "run-as-username-container",
			Image:           e2eImage,
			Command:         []string{"cmd", "/S", "/C", "echo %username%"},
			SecurityContext: &corev1.SecurityContext{WindowsOptions: options(name)},
		}},
		SecurityContext: &corev1.PodSecurityContext{WindowsOptions: options(name)},
		RestartPolicy:   corev1.RestartPolicyNever,
	}
	if edit != nil {
		edit(&s)
	}
	return s
}

func options(user string) *corev1.WindowsSecurityContextOptions {
	return &corev1.WindowsSecurityContextOptions{RunAsUserName: &user}
}

func upstreamPods() []upstreamPod {
	yes, user := true, int64(999)
	nonRoot := func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = &yes }
	return []upstreamPod{
		{
			test: "windows/security_context.go: should not be able to create pods with containers running as " +
				"ContainerAdministrator when runAsNonRoot is true",
			refused: true,
			spec:    asUser("ContainerAdministrator", nonRoot),
		},
		{
			test:    "windows/security_context.go: … as CONTAINERADMINISTRATOR when runAsNonRoot is true",
			refused: true,
			spec:    asUser("CONTAINERADMINISTRATOR", nonRoot),
		},
		{
			test:    "common/node/pod_admission.go: should reject pod when the node OS doesn't match pod's OS",
			refused: true,
			spec: corev1.PodSpec{
				OS:         &corev1.PodOS{Name: corev1.Windows},
				NodeName:   "linux-1",
				Containers: []corev1.Container{{Name: "wrong-pod-os", Image: e2eImage}},
			},
		},
		{
			test: "windows/security_context.go: should not be able to create pods with unknown usernames at Pod level",
			spec: asUser("FooLish", nil),
		},
		{
			test: "windows/security_context.go: should ignore Linux Specific SecurityContext if set",
			spec: asUser("ContainerAdministrator", func(s *corev1.PodSpec) {
				level := &corev1.SELinuxOptions{Level: "s0:c24,c9"}
				s.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: level}
				s.Containers[0].SecurityContext.SELinuxOptions = level
				s.Tolerations = []corev1.Toleration{{Key: "os", Value: "Windows"}}
			}),
		},
		{
			test: "windows/security_context.go: should be able to create pod and run containers",
			spec: corev1.PodSpec{
				NodeSelector: map[string]string{"kubernetes.io/os": "windows"},
				Containers:   []corev1.Container{{Name: "test-container", Image: e2eImage}},
				SecurityContext: &corev1.PodSecurityContext{
					RunAsUser:    &user,
					RunAsGroup:   &user,
					RunAsNonRoot: &yes,
				},
				RestartPolicy: corev1.RestartPolicyNever,
			},
		},
	}
}

// TestUpstreamInWarnMode: upstream's tests that want to see a node refuse a pod
// need the API server to take it. The pods are copies of those in upstream's tests. In warn mode it does, nothing that
// they compare is changed, and the annotation does not repeat the image.
func TestUpstreamInWarnMode(t *testing.T) {
	testenv.Need(t, testenv.Built)
	c := startCluster(t)
	c.addNodes()
	for _, mode := range []policy.Admission{policy.AdmissionWarn, policy.AdmissionOff, policy.AdmissionEnforce} {
		m, stop := c.startManager(func(cfg *manager.Config) { cfg.Admission = mode })
		c.ready(m)
		for _, u := range upstreamPods() {
			made, err := c.Admin().CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "upstream-"},
				Spec:       *u.spec.DeepCopy(),
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if want := u.refused && mode == policy.AdmissionEnforce; apierrors.IsForbidden(err) != want ||
				err != nil && !want {
				t.Errorf("%s: %s: %v", mode, u.test, err)
			}
			if err != nil {
				continue
			}
			got, want := made.Spec.Containers[0], u.spec.Containers[0]
			if !reflect.DeepEqual(made.Spec.SecurityContext, orEmpty(u.spec.SecurityContext)) ||
				!reflect.DeepEqual(got.SecurityContext, want.SecurityContext) || got.Image != want.Image ||
				!reflect.DeepEqual(got.Command, want.Command) {
				t.Errorf("%s: %s: changed to %+v", mode, u.test, made.Spec)
			}
			for key, text := range made.Annotations {
				if strings.Contains(text, e2eImage) {
					t.Errorf("%s: %s: annotation %s repeats the image: %q", mode, u.test, key, text)
				}
			}
		}
		stop()
	}
}

// orEmpty: the API server writes an empty one where there is none.
func orEmpty(c *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	if c == nil {
		return &corev1.PodSecurityContext{}
	}
	return c
}
