// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package watch

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
)

// kind is a kind of object that is followed.
type kind struct {
	name, path, selector string
	// read returns an object's key and the part of it to keep.
	read func(doc []byte) (key string, kept any, err error)
}

// kinds lists the kinds to watch. A node must be allowed to list and watch them.
func kinds() []kind {
	return []kind{
		{"networkpolicies", "/apis/networking.k8s.io/v1/networkpolicies", "", readPolicy},
		{"namespaces", "/api/v1/namespaces", "", readNamespace},
		{"pods", "/api/v1/pods", "", readPod},
		{"endpointslices", "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices",
			"kubernetes.io/service-name=kube-dns", readDNS},
	}
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

func readPolicy(doc []byte) (string, any, error) {
	var p netpolicy.Policy
	if err := json.Unmarshal(doc, &p); err != nil {
		return "", nil, fmt.Errorf("read NetworkPolicy: %w", err)
	}
	return p.Metadata.Namespace + "/" + p.Metadata.Name, p, nil
}

func readNamespace(doc []byte) (string, any, error) {
	var n struct {
		Metadata netpolicy.Metadata `json:"metadata"`
	}
	if err := json.Unmarshal(doc, &n); err != nil {
		return "", nil, fmt.Errorf("read namespace: %w", err)
	}
	return n.Metadata.Name, netpolicy.Namespace{Name: n.Metadata.Name, Labels: n.Metadata.Labels}, nil
}

// container is the part of a container that names ports.
type container struct {
	RestartPolicy string `json:"restartPolicy"`
	Ports         []struct {
		Name          string             `json:"name"`
		ContainerPort int32              `json:"containerPort"`
		Protocol      netpolicy.Protocol `json:"protocol"`
	} `json:"ports"`
}

func readPod(doc []byte) (string, any, error) {
	var v struct {
		Metadata netpolicy.Metadata `json:"metadata"`
		Spec     struct {
			NodeName       string      `json:"nodeName"`
			HostNetwork    bool        `json:"hostNetwork"`
			Containers     []container `json:"containers"`
			InitContainers []container `json:"initContainers"`
		} `json:"spec"`
		Status struct {
			Phase  string `json:"phase"`
			PodIPs []struct {
				IP string `json:"ip"`
			} `json:"podIPs"`
		} `json:"status"`
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		return "", nil, fmt.Errorf("read pod: %w", err)
	}
	p := netpolicy.Pod{
		Namespace: v.Metadata.Namespace, Name: v.Metadata.Name, Node: v.Spec.NodeName, Labels: v.Metadata.Labels,
		HostNetwork: v.Spec.HostNetwork,
		Done:        v.Status.Phase == "Succeeded" || v.Status.Phase == "Failed",
	}
	for _, text := range v.Status.PodIPs {
		if a, err := netip.ParseAddr(text.IP); err == nil {
			p.Addresses = append(p.Addresses, a)
		}
	}
	containers := v.Spec.Containers
	for _, c := range v.Spec.InitContainers {
		if c.RestartPolicy == "Always" { // a sidecar
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, port := range c.Ports {
			if port.Name != "" {
				p.Ports = append(p.Ports, netpolicy.ContainerPort{Name: port.Name, Protocol: port.Protocol,
					Number: uint16(port.ContainerPort)})
			}
		}
	}
	return p.Namespace + "/" + p.Name, p, nil
}

// readDNS makes pods of the cluster's DNS servers that are not pods. Policies allow DNS
// by the namespace and label of upstream's CoreDNS pods; a cluster whose CoreDNS runs
// elsewhere has only the endpoints of their Service.
func readDNS(doc []byte) (string, any, error) {
	var v struct {
		Metadata  netpolicy.Metadata `json:"metadata"`
		Endpoints []struct {
			Addresses []string `json:"addresses"`
			TargetRef *struct {
				Kind string `json:"kind"`
			} `json:"targetRef"`
		} `json:"endpoints"`
		Ports []struct {
			Name     string             `json:"name"`
			Port     int32              `json:"port"`
			Protocol netpolicy.Protocol `json:"protocol"`
		} `json:"ports"`
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		return "", nil, fmt.Errorf("read EndpointSlice: %w", err)
	}
	key := v.Metadata.Namespace + "/" + v.Metadata.Name
	var pods []netpolicy.Pod
	for i, e := range v.Endpoints {
		if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
			continue
		}
		p := netpolicy.Pod{Namespace: v.Metadata.Namespace, Name: fmt.Sprintf("%s-%d", v.Metadata.Name, i),
			Labels: map[string]string{"k8s-app": "kube-dns"}}
		for _, text := range e.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				p.Addresses = append(p.Addresses, a)
			}
		}
		for _, port := range v.Ports {
			p.Ports = append(p.Ports, netpolicy.ContainerPort{Name: port.Name, Protocol: port.Protocol,
				Number: uint16(port.Port)})
		}
		pods = append(pods, p)
	}
	return key, pods, nil
}
