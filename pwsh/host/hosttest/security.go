// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hosttest

import (
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// Security is a FileSecurity in memory: all files have the same descriptor.
type Security struct {
	All   host.Security
	Known []host.Account
}

// Security returns All.
func (s *Security) Security(string) (host.Security, error) { return s.All, nil }

// SetSecurity changes All.
func (s *Security) SetSecurity(_ string, to host.Security) error {
	s.All.Rules, s.All.Protected = to.Rules, to.Protected
	if to.Owner.SID != "" {
		s.All.Owner = to.Owner
	}
	return nil
}

// FindAccount looks into Known.
func (s *Security) FindAccount(name string) (host.Account, error) {
	for _, a := range s.Known {
		if strings.EqualFold(a.Name, name) || a.SID == name {
			return a, nil
		}
	}
	return host.Account{}, fmt.Errorf("no account %q", name)
}
