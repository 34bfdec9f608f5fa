// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
)

// Admission is the webhooks' treatment of findings about objects in namespaces
// without labels for it. Pods are placed in any case.
type Admission string

// The values of Admission.
const (
	AdmissionEnforce Admission = "enforce" // refuse objects that cannot run, warn about the rest
	AdmissionWarn    Admission = "warn"    // refuse no object, warn about every finding
	AdmissionOff     Admission = "off"     // do not judge objects
)

// Validate returns an error if a is neither one of the values nor empty, which
// leaves the choice to the reader.
func (a Admission) Validate() error {
	switch a {
	case "", AdmissionEnforce, AdmissionWarn, AdmissionOff:
		return nil
	}
	return fmt.Errorf("admission %q: want enforce, warn or off", string(a))
}
