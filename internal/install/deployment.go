// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// The ports of the pods, by name and by number; the numbers are the defaults of
// mullion manager's --listen, --health and --metrics.
const (
	webhookPort       = "webhook"
	healthPort        = "health"
	webhookPortNumber = 9443
	healthPortNumber  = 8081
	metricsPort       = "metrics"
	metricsPortNumber = 8080
)

// The volume of registries' authorities, and its mount path in mullion manager.
// The ConfigMap's keys become files of a folder in the layout of containerd's
// certs.d.
const (
	registryCerts     = "registry-certs"
	registryCertsPath = "/etc/mullion/registry-certs"
)

// scrape returns the annotations by which a Prometheus with the usual
// configuration finds the metrics; cert-manager's chart has the same.
func scrape() map[string]string {
	return map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": fmt.Sprint(metricsPortNumber),
		"prometheus.io/path": "/metrics"}
}

// priorityClass protects the manager from preemption: in a full cluster it must
// still place pods, or Linux pods land on Windows nodes unnoticed.
const priorityClass = "system-cluster-critical"

// user is the unprivileged user of the image, the "nonroot" of distroless
// images. It does not own any files.
const user = 65532

// Resources of a manager. An idle one uses about 40 MB; its caches grow with the
// nodes and pods of the cluster, about 4 kB each. Processor time is not limited:
// throttling would delay every pod that is created.
var (
	memoryRequest    = resource.MustParse("64Mi")
	memoryLimit      = resource.MustParse("512Mi")
	processorRequest = resource.MustParse("50m")
	// quotaPods is above the largest number of replicas, during a roll-out too.
	quotaPods = resource.MustParse("100")
)

// goMemoryLimit is nine tenths of memoryLimit: the garbage collector runs more
// often before the kernel kills the process.
const goMemoryLimit = "460MiB"

func (c Config) deployment() *appsv1.Deployment {
	zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: c.meta(Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &c.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: selected()},
			// The old one answers until the new one does.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &zero, MaxSurge: &one}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(), Annotations: scrape()},
				Spec: c.pod()},
		},
	}
}

func (c Config) pod() corev1.PodSpec {
	yes, id := true, int64(user)
	p := corev1.PodSpec{
		ServiceAccountName:           Name,
		AutomountServiceAccountToken: &yes,
		PriorityClassName:            priorityClass,
		OS:                           &corev1.PodOS{Name: corev1.Linux},
		NodeSelector:                 map[string]string{corev1.LabelOSStable: "linux"},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{spread(corev1.LabelHostname),
			spread(corev1.LabelTopologyZone)},
		Containers: []corev1.Container{c.container()},
	}
	if c.RegistryCerts != "" {
		p.Volumes = []corev1.Volume{{Name: registryCerts, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: c.RegistryCerts}}}}}
	}
	for _, s := range c.ImagePullSecrets {
		p.ImagePullSecrets = append(p.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	return p
}

// spread puts the managers on different nodes if possible; a cluster of one
// node runs them all. Pods of another template do not count, or the new ones of
// a roll-out would avoid the nodes of the old ones.
func spread(by string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: by, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: selected()}, MatchLabelKeys: []string{"pod-template-hash"},
	}
}

func (c Config) container() corev1.Container {
	yes, no := true, false
	var mounts []corev1.VolumeMount
	if c.RegistryCerts != "" {
		mounts = []corev1.VolumeMount{{Name: registryCerts, MountPath: registryCertsPath, ReadOnly: true}}
	}
	return corev1.Container{
		VolumeMounts: mounts,
		Name:         "manager", Image: c.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: c.arguments(),
		Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: goMemoryLimit}},
		Ports: []corev1.ContainerPort{
			{Name: webhookPort, ContainerPort: webhookPortNumber, Protocol: corev1.ProtocolTCP},
			{Name: healthPort, ContainerPort: healthPortNumber, Protocol: corev1.ProtocolTCP},
			{Name: metricsPort, ContainerPort: metricsPortNumber, Protocol: corev1.ProtocolTCP},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: processorRequest, corev1.ResourceMemory: memoryRequest},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: memoryLimit},
		},
		LivenessProbe:  probe("/livez", 10),
		ReadinessProbe: probe("/readyz", 2),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// probe runs at the given interval in seconds. It fails after three missing
// answers in a row, Kubernetes' default.
func probe(path string, seconds int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
			Port: intstr.FromString(healthPort), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: seconds, TimeoutSeconds: 2, FailureThreshold: 3,
	}
}

// arguments returns the arguments of mullion manager, without the ones that
// equal its defaults.
func (c Config) arguments() []string {
	args := []string{"manager", "--namespace=" + c.Namespace, "--service=" + inventory.Service,
		"--owner-cluster-role=" + Name, "--admission=" + string(c.Admission),
		"--rules-failure-policy=" + c.RulesFailurePolicy}
	if c.WindowsTaint != "" {
		args = append(args, "--windows-taint="+c.WindowsTaint)
	}
	if c.NoRegistries {
		args = append(args, "--no-registries")
	}
	for _, host := range c.InsecureRegistries {
		args = append(args, "--insecure-registry="+host)
	}
	if c.RegistryCerts != "" {
		args = append(args, "--registry-certs="+registryCertsPath)
	}
	if c.NoGMSA {
		args = append(args, "--no-gmsa")
	}
	if c.GMSARandomHostname {
		args = append(args, "--gmsa-random-hostname")
	}
	if c.Storage {
		args = append(args, "--storage")
	}
	return args
}
