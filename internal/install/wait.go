// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// StuckError describes a problem that the user must fix before the manager can
// run.
type StuckError struct{ Object, Reason, Message string }

func (e *StuckError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Object, e.Reason, strings.TrimSpace(e.Message))
}

// Wait returns when all managers run and their webhooks are registered. It
// returns a *StuckError if that cannot happen without the user's help.
func Wait(ctx context.Context, c *Cluster, cfg Config, opts Options) error {
	cfg = cfg.withDefaults()
	last := "the managers"
	err := until(ctx, func() string { return last }, func(ctx context.Context) (bool, error) {
		missing, err := c.rollout(ctx, cfg)
		if err != nil {
			return false, err
		}
		if missing == "" {
			missing, err = c.registered(ctx, cfg)
		}
		if missing != "" {
			last = missing
			opts.waiting("%s", missing)
		}
		return missing == "", err
	})
	return err
}

// rollout describes the condition that the Deployment is waiting for, or returns "".
func (c *Cluster) rollout(ctx context.Context, cfg Config) (missing string, err error) {
	o, err := c.get(ctx, deployments, cfg.Namespace, Name)
	if err != nil {
		return "", err
	}
	if o == nil {
		return "", fmt.Errorf("find Deployment %s/%s: it is gone", cfg.Namespace, Name)
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
		return "", fmt.Errorf("read %s: %w", describe(o), err)
	}
	if d.Status.ObservedGeneration < d.Generation {
		return "the deployment controller", nil
	}
	for _, cond := range d.Status.Conditions {
		if cond.Type == appsv1.DeploymentReplicaFailure && cond.Status == corev1.ConditionTrue {
			return "", &StuckError{describe(o), cond.Reason, cond.Message}
		}
	}
	want := *d.Spec.Replicas
	if d.Status.UpdatedReplicas == want && d.Status.AvailableReplicas == want && d.Status.Replicas == want {
		return "", nil
	}
	if err := c.stuck(ctx, &d); err != nil {
		return "", err
	}
	return fmt.Sprintf("the managers: %d of %d run", min(d.Status.UpdatedReplicas, d.Status.AvailableReplicas),
		want), nil
}

// stuck finds pods of the newest template that need the user's help.
func (c *Cluster) stuck(ctx context.Context, d *appsv1.Deployment) error {
	const revision = "deployment.kubernetes.io/revision"
	sets, err := c.list(ctx, replicaSets, d.Namespace, nameLabel+"="+appName+","+componentLabel+"="+component)
	if err != nil {
		return err
	}
	for _, rs := range sets {
		if rs.GetAnnotations()[revision] != d.Annotations[revision] {
			continue
		}
		list, err := c.list(ctx, pods, d.Namespace, appsv1.DefaultDeploymentUniqueLabelKey+"="+
			rs.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey])
		if err != nil {
			return err
		}
		for _, o := range list {
			var p corev1.Pod
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
				return fmt.Errorf("read pod %s: %w", o.GetName(), err)
			}
			for _, s := range p.Status.ContainerStatuses {
				if w := s.State.Waiting; w != nil && needUser[w.Reason] {
					return &StuckError{"Pod " + p.Namespace + "/" + p.Name, w.Reason, w.Message}
				}
			}
		}
	}
	return nil
}

// needUser are the kubelet's reasons for failures that do not resolve
// themselves (k8s.io/kubernetes pkg/kubelet/images: types.go;
// pkg/kubelet/container).
var needUser = map[string]bool{
	"ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true, "CreateContainerConfigError": true,
	"CrashLoopBackOff": true,
}

// registered describes the webhooks that are not registered yet, or are
// registered with an older configuration: registrations outlive the managers
// that made them.
func (c *Cluster) registered(ctx context.Context, cfg Config) (missing string, err error) {
	for _, k := range []kind{mutatingWebhooks, validatingWebhooks} {
		o, err := c.get(ctx, k, "", registration.Name)
		if err != nil {
			return "", err
		}
		if o == nil {
			return "the manager to register its webhooks", nil
		}
		gmsa := false
		for _, h := range tree.Root(o.Object).Find("webhooks").Items() {
			name := h.Find("name").Str()
			gmsa = gmsa || name == registration.GMSAWebhook
			if name == registration.RulesWebhook && h.Find("failurePolicy").Str() != cfg.RulesFailurePolicy {
				return fmt.Sprintf("the manager to give the webhook %s the failure policy %s", name,
					cfg.RulesFailurePolicy), nil
			}
			ca, ns := h.Find("clientConfig", "caBundle").Str(), h.Find("clientConfig", "service", "namespace").Str()
			if ca == "" || ns != cfg.Namespace {
				return "the manager to register the webhook " + name, nil
			}
		}
		if gmsa == cfg.NoGMSA {
			return "the manager to update the registration of its GMSA webhooks", nil
		}
	}
	return "", nil
}
