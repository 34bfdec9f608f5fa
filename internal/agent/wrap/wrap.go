// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package wrap runs the program of a Windows service and writes its output to a
// log.
//
// The service manager starts services without standard streams, so the kubelet's output
// would be lost. It starts the wrapper instead, the wrapper starts the program, and the
// program connects to the service manager itself: the manager accepts a process below the
// one that it started. The program is the service, with all its controls (graceful node
// shutdown needs that); the wrapper copies and waits. OpenShift runs its Windows kubelets
// the same way with Kubernetes' kube-log-runner
// (github.com/openshift/windows-machine-config-operator pkg/services); ours also makes
// sure that the program never outlives the wrapper, whose process is the one that the
// manager knows.
package wrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/logfile"
)

// Program describes a program for Run.
type Program struct {
	Argv []string
	// Log is the file to which its output is appended.
	Log string
	// Env are variables, KEY=VALUE, in addition to the environment of this process.
	Env []string
}

// Run runs the program and returns its exit code when it has ended. It ends the program if the context is
// cancelled.
func Run(ctx context.Context, p Program) (code int, err error) {
	log, argv := p.Log, p.Argv
	out, err := logfile.Open(log, logfile.DefaultBytes, logfile.DefaultKeep)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := dieTogether(); err != nil {
		return 0, fmt.Errorf("tie %s to this process: %w", argv[0], err)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = noConsole()
	// Do not wait for a grandchild that keeps the pipe open.
	cmd.WaitDelay = 2 * time.Second
	fmt.Fprintf(out, "--- %s starting %q\n", time.Now().UTC().Format(time.RFC3339), argv)
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err == nil || ended {
		fmt.Fprintf(out, "--- %s ended: %s\n", time.Now().UTC().Format(time.RFC3339), cmd.ProcessState)
		return cmd.ProcessState.ExitCode(), nil
	}
	fmt.Fprintf(out, "--- %s not started: %v\n", time.Now().UTC().Format(time.RFC3339), err)
	return 0, fmt.Errorf("run %s: %w", argv[0], err)
}
