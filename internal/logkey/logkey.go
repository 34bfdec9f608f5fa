// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package logkey defines the keys of structured logs, so that a value has the
// same name in every component's log. All programs log with them.
package logkey

// The keys are in snake_case, unlike those of Kubernetes' JSON logs, so that
// readers can tell them apart at a glance.
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
