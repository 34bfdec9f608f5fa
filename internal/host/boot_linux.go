// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cgroup"
)

// Boot is the part of the boot document, which the parent sends to process 1, that hosts of all operating systems have.
type Boot struct {
	// CA and Token are the content of the files that Config names: process 1 cannot see them. The token is in no file
	// of the host until a program needs it.
	CA    []byte `json:"ca"`
	Token string `json:"token,omitempty"`
	// Cgroups are the hierarchies of the machine; the host has all of them.
	Cgroups cgroup.Hierarchies `json:"cgroups"`
	// Size of the machine as the host's programs see it.
	Size Size `json:"size"`
}

// Boot returns the host's part of the boot document.
func (p *Parent) Boot() (b Boot, err error) {
	b.Size = p.Size
	if b.CA, b.Token, err = readSecrets(p.spec.CAFile, p.spec.TokenFile); err != nil {
		return b, err
	}
	b.Cgroups, err = cgroup.Find()
	return b, err
}

// readSecrets reads the files that a host needs to join its cluster and cannot see
// itself: the cluster's CA certificate (PEM), and the bootstrap token. The token is
// "" where tokenFile is, or where there is no such file: a node that has joined
// needs no token.
func readSecrets(caFile, tokenFile string) (ca []byte, token string, err error) {
	if ca, err = os.ReadFile(caFile); err != nil {
		return nil, "", fmt.Errorf("read CA certificate: %w", err)
	}
	if tokenFile == "" {
		return ca, "", nil
	}
	content, err := os.ReadFile(tokenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("read bootstrap token: %w", err)
	}
	return ca, strings.TrimSpace(string(content)), nil
}
