// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"reflect"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// FuzzConfig: a Config that is accepted can be described, and is the same when it is
// written and read again.
func FuzzConfig(f *testing.F) {
	for _, c := range networks() {
		doc, err := durable.EncodeDocument(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	f.Add([]byte(`{"name":"linux-1","podCIDR":"10.0.0.0/32","network":"vxlan","podGateway":true}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := durable.ParseDocument(doc, (*Config).complete)
		if err != nil {
			return
		}
		if _, err := describeFiles(boot{Config: c}); err != nil {
			t.Errorf("accepted, and cannot be described: %v", err)
		}
		for _, r := range gatewayRanges(c) {
			if !r.IsValid() {
				t.Errorf("accepted, and the way to its pods is %s", r)
			}
		}
		_ = rules(c)
		text, err := durable.EncodeDocument(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := durable.ParseDocument(text, (*Config).complete)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v came back as %+v, %v", c, again, err)
		}
	})
}
