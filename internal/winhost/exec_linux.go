// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// Exec replaces this process by a Windows program on a running host, as a shell of
// the administrator's on that host would start it.
func Exec(c Config, args []string) error {
	return host.Exec(c.Config, nil, func(root string) (host.Program, error) {
		f, err := os.Open(filepath.Join(root, bootFile))
		if err != nil {
			return host.Program{}, fmt.Errorf("read how the host was booted: %w", err)
		}
		defer f.Close() // opened for reading
		var b boot
		if err := host.ReadBoot(f, &b); err != nil {
			return host.Program{}, err
		}
		return describeExec(wineHost(b), c.Name, args), nil
	})
}

// describeExec returns the Linux program that runs a Windows program for the host's
// administrator, confined as all Windows programs of the host are.
func describeExec(h wine.Host, computer string, args []string) host.Program {
	account, _ := wine.FindAccount("Administrator", computer) // every host has it
	argv, env, _ := h.Process(wine.Process{Args: args, Account: account, Computer: computer, Exec: true})
	return host.Program{
		Argv: h.Confined(argv),
		Env:  append(env, "PATH=/usr/bin"),
		GID:  account.GID,
	}
}
