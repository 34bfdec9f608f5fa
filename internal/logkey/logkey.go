// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package logkey is the one list of structured-log keys, so that a value can
// be searched for under one name in every component's log.
package logkey

// Keys are snake_case, as the fields of Kubernetes' own JSON logs are not; a
// reader tells ours from upstream's at a glance.
const (
	Address     = "address"
	Build       = "build" // Windows build, "10.0.17763"
	Code        = "code"
	Component   = "component"
	ContainerID = "container_id"
	Duration    = "duration"
	Error       = "error"
	ExitCode    = "exit_code"
	File        = "file"
	Image       = "image"
	Method      = "method"
	Name        = "name"
	Namespace   = "namespace" // a Kubernetes or an HCN namespace
	Network     = "network"
	Node        = "node"
	Path        = "path"
	PID         = "pid"
	Pod         = "pod"
	Reason      = "reason"
	SandboxID   = "sandbox_id"
	Size        = "size_bytes"
	URL         = "url"
	Wait        = "wait"
)
