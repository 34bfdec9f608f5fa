// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"reflect"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// FuzzConfig: a cluster.json that is accepted can be planned, and is the same when
// it is written and read again.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		`{"apiVersion":"mullion/v1alpha1","name":"x","index":3,"windows":["2019","ltsc2022","10.0.26100.1"]}`,
		`{"apiVersion":"mullion/v1alpha1","name":"x","windows":[],
			"windowsTaint":"os=windows:NoSchedule","noAdmission":true}`,
		`{"apiVersion":"mullion/v1alpha1","name":"x",
			"datastore":{"endpoints":["https://etcd:2379"],"caFile":"/ca.crt"}}`,
		`{"apiVersion":"mullion/v1alpha1","name":"x","windows":["2019"],"linux":2,"removed":["linux-1","win-1"]}`,
		`{"apiVersion":"mullion/v1alpha1","name":"x","index":-1}`, `{"apiVersion":"mullion/v1alpha1","na`, `null`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := durable.ParseDocument(data, (*Config).validate)
		if err != nil {
			return
		}
		if _, err := Describe(Layout{"/data", c.Name}, c, "/bin"); err != nil {
			t.Errorf("accepted, and cannot be planned: %v", err)
		}
		text, err := durable.EncodeDocument(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := durable.ParseDocument(text, (*Config).validate)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v came back as %+v, %v", c, again, err)
		}
	})
}
