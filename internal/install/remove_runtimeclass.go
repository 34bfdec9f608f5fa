// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"fmt"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// workload describes where objects of a kind contain their pod spec.
type workload struct {
	kind kind
	path []string
}

// workloads lists the kinds whose pods would be refused without the
// RuntimeClass that they name. ReplicaSets mostly belong to Deployments.
func workloads() []workload {
	template := []string{"spec", "template", "spec"}
	return []workload{
		{pods, []string{"spec"}},
		{deployments, template},
		{kind{"StatefulSet", group("apps", "statefulsets"), true}, template},
		{kind{"DaemonSet", group("apps", "daemonsets"), true}, template},
		{kind{"Job", group("batch", "jobs"), true}, template},
		{kind{"CronJob", group("batch", "cronjobs"), true},
			[]string{"spec", "jobTemplate", "spec", "template", "spec"}},
	}
}

// runtimeClasses removes the RuntimeClasses that the manager created and no
// workload names.
func (r *removal) runtimeClasses(ctx context.Context) error {
	list, err := r.c.list(ctx, runtimeClasses, "", inventory.ManagedBy+"="+appName)
	if err != nil || len(list) == 0 {
		return err
	}
	used := map[string][]string{}
	if !r.opts.Purge {
		if used, err = r.users(ctx); err != nil {
			return err
		}
	}
	for _, o := range list {
		s := step(runtimeClasses, &o)
		if by := used[o.GetName()]; len(by) > 0 {
			s.Action, s.Why = Kept, fmt.Sprintf("it is named by %s; --purge removes it", few(by))
			r.say(s)
			continue
		}
		if err := r.remove(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// users lists, by RuntimeClass, the workloads that name it.
func (r *removal) users(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	for _, w := range workloads() {
		list, err := r.c.list(ctx, w.kind, "", "")
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			// The owner of a pod determines its successors.
			if len(o.GetOwnerReferences()) > 0 && w.kind != deployments {
				continue
			}
			if class := tree.Root(o.Object).Find(w.path...).Find("runtimeClassName").Str(); class != "" {
				out[class] = append(out[class], w.kind.name+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
	}
	return out, nil
}
