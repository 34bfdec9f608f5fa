// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ReadSecrets reads what a host needs to join its cluster and cannot see itself: the
// cluster's CA certificate (PEM), and the bootstrap token. The token is "" where
// tokenFile is, or where there is no such file: a node that has joined needs none.
func ReadSecrets(caFile, tokenFile string) (ca []byte, token string, err error) {
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
