// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package gmsa

import (
	_ "embed" // the definition below
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed gmsacredentialspecs.yaml
var definition []byte

// CRDName is the name of the definition.
const CRDName = "gmsacredentialspecs.windows.k8s.io"

// CRD is the CustomResourceDefinition of GMSACredentialSpec as a tree that the
// caller may change.
func CRD() (map[string]any, error) {
	var out map[string]any
	if err := yaml.Unmarshal(definition, &out); err != nil {
		return nil, fmt.Errorf("read the definition of GMSACredentialSpec: %w", err)
	}
	return out, nil
}
