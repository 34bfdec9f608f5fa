// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// FuzzConfig: a configuration that is accepted says where the host is, and is the
// same when it is written and read again.
func FuzzConfig(f *testing.F) {
	good, err := json.Marshal(testConfig("/x"))
	if err != nil {
		f.Fatal(err)
	}
	former, err := os.ReadFile("testdata/former.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		string(good), string(former), `{"cluster":"c","build":"2019","agent":{}}`,
		`{"agent":{"node":{"address":"::1"}}}`, `null`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := durable.ParseDocument(data, (*Config).complete)
		if err != nil {
			return
		}
		if c.Name == "" || !c.Address.IsValid() || !c.Address.Contains(c.Gateway) {
			t.Errorf("accepted %q at %s with gateway %s", c.Name, c.Address, c.Gateway)
		}
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
