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

// generation says which program used a data directory last; version.json. A
// directory without it is of the time before there was one, or new.
type generation struct {
	Format     int    `json:"format"`
	Mullion    string `json:"mullion"`
	Kubernetes string `json:"kubernetes"`
}

// enter notes that this program uses the data directory. It is an error if a later
// version has used it: that may have stored what this one cannot read, and would
// take for damaged or, worse, overwrite.
func enter(c config.Config) error {
	now := generation{Format: dataFormat, Mullion: version.String(), Kubernetes: version.Kubernetes}
	// One that cannot be read says nothing, and is replaced.
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
