// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

// limits lists the features that the data plane of Windows lacks although HNS takes
// the call.
type limits struct {
	// noLocalBackends: programs of a node do not reach the node's own pods by a Service
	// or a node port: "Local NodePort access from the node itself fails (works for other
	// nodes or external clients)"; "nodes are not able to access the IP of services
	// scheduled on them".
	// https://kubernetes.io/docs/concepts/services-networking/windows-networking/ and the
	// guide to Windows containers of Kubernetes 1.19, read 2026-11.
	noLocalBackends bool
	// noAffinity: session affinity needs Windows Server 2022 (the first page above). The
	// client takes HNS 12.0 to have it (hnslib v0.1.2, hcn/hcnglobals.go), and kube-proxy
	// passes the setting on to an older one, with a warning.
	noAffinity bool
	// singleStack: endpoints and load balancers have IPv4 only, whatever their documents say.
	singleStack bool
}

// affinityMajor is the first major version of HNS with session affinity.
const affinityMajor = 12

func (c Config) limits() limits {
	l := limits{singleStack: !c.Version.TwoFamilies()}
	if !c.NoLimits {
		l.noLocalBackends, l.noAffinity = true, c.Version.Major < affinityMajor
	}
	return l
}
