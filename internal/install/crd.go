// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
)

// credentialSpecs defines GMSACredentialSpecs.
func credentialSpecs() (*unstructured.Unstructured, error) {
	m, err := gmsa.CRD()
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: m}
	all := u.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels())
	u.SetLabels(all)
	return u, nil
}
