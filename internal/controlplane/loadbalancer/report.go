// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// reporter emits events about missing addresses for owners of Services, where upstream's controller is quiet because
// it sees no error.
type reporter struct {
	pools  pools
	events record.EventRecorder
}

func (r reporter) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { r.report(nil, obj) },
		UpdateFunc: func(old, obj any) {
			if s, ok := old.(*corev1.Service); ok {
				r.report(s, obj)
			}
		},
	}
}

// report sends an event when a Service begins to lack an address.
func (r reporter) report(old *corev1.Service, obj any) {
	s, ok := obj.(*corev1.Service)
	if !ok {
		return
	}
	if classed(s) && !classed(old) {
		r.events.Eventf(s, corev1.EventTypeNormal, "LoadBalancerClassNotOurs",
			"spec.loadBalancerClass is %q: the controller of that class has to give this Service an address. Without "+
				"the field, this cluster gives it one of %s", *s.Spec.LoadBalancerClass, r.pools)
	}
	if lacks := r.lacks(s); lacks != "" && lacks != r.lacks(old) {
		r.events.Eventf(s, corev1.EventTypeNormal, "LoadBalancerFamilyMissing",
			"spec.ipFamilies: %s: the cluster's load balancer has no pool for it, so this Service gets no address of "+
				"it. A cluster made with a range of each family has one (mullion up --load-balancer-pool)", lacks)
	}
}

// classed reports whether a Service waits for another controller's address.
func classed(s *corev1.Service) bool {
	return s != nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass != nil &&
		len(s.Status.LoadBalancer.Ingress) == 0
}

// lacks names the families in which a Service gets no address although it gets one in another.
func (r reporter) lacks(s *corev1.Service) string {
	if s == nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil {
		return ""
	}
	has, err := r.pools.families(s)
	if err != nil {
		return "" // upstream's controller reports it
	}
	var out []string
	for _, f := range s.Spec.IPFamilies {
		if !slices.Contains(has, f) {
			out = append(out, fmt.Sprint(f))
		}
	}
	return strings.Join(out, ", ")
}
