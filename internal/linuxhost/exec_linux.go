// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import "github.com/mullion-k8s/mullion/internal/host"

// Exec replaces this process by a program on a running host, with the rights that
// root has there. ctr is among the host's programs.
func Exec(c Config, args []string) error {
	return host.Exec(c.Config, narrow, func(string) (host.Program, error) {
		env := append(environment(), "CONTAINERD_ADDRESS="+containerdSocket, "CONTAINERD_NAMESPACE=k8s.io")
		// nsenter looks for the program by the PATH that it is given.
		return host.Program{Argv: append([]string{"/usr/bin/env"}, args...), Env: env}, nil
	})
}
