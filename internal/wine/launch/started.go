// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"fmt"
	"os"
	"path/filepath"
)

// startedMarker in the status directory says that the container's main program was started.
const startedMarker = ".started"

// reportStarted makes the marker, for the server. Other programs are started after the main one: none of them can have
// made it before.
func reportStarted(c Config) error {
	if c.Exec || c.StatusName == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(c.StatusDir, startedMarker), nil, 0o644); err != nil {
		return fmt.Errorf("report start: %w", withoutPath(err))
	}
	return nil
}

// Started reports whether the main program of the container with the status directory was started.
func Started(statusDir string) bool {
	_, err := os.Lstat(filepath.Join(statusDir, startedMarker))
	return err == nil
}
