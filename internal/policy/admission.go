// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import "fmt"

// Admission says what the webhooks of a cluster do with the findings about
// objects in namespaces whose labels do not say it. Pods are placed whatever it is.
type Admission string

// The values of Admission.
const (
	AdmissionEnforce Admission = "enforce" // refuse what cannot run, warn of the rest
	AdmissionWarn    Admission = "warn"    // refuse nothing, warn of everything
	AdmissionOff     Admission = "off"     // judge nothing
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
