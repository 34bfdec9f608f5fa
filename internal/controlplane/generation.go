// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"fmt"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/version"
)

// dataFormat numbers the ways in which a data directory was laid out. A version of
// mullion that an earlier one cannot follow raises it.
const dataFormat = 1

// generation is the content of version.json: the last program that used a data directory.
// A directory without it is new, or older than the file's introduction.
type generation struct {
	Format     int    `json:"format"`
	Mullion    string `json:"mullion"`
	Kubernetes string `json:"kubernetes"`
}

// enter notes that this program uses the data directory. It is an error if a later
// version has used it: its data may be unreadable to this version, which would treat it
// as damaged or, worse, overwrite it.
func enter(c config.Config) error {
	now := generation{Format: dataFormat, Mullion: version.String(), Kubernetes: version.Kubernetes}
	// An unreadable file is replaced.
	last, err := durable.ReadStatus[generation](c.VersionFile())
	if err == nil && (last.Format > dataFormat || version.Newer(last.Kubernetes)) {
		return &config.UnusableError{Err: fmt.Errorf("the data in %s were last used by mullion %s with Kubernetes %s, "+
			"and this is mullion %s with Kubernetes %s: use that version or a later one, or restore a backup of this "+
			"one ('mullion down --purge', then 'mullion restore FILE')", c.DataDir, last.Mullion, last.Kubernetes,
			now.Mullion, now.Kubernetes)}
	}
	if err == nil && last == now {
		return nil
	}
	return durable.WriteDocument(c.VersionFile(), now)
}
