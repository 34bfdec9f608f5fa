// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package store

import (
	"bytes"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// FuzzRecord: a record that is read has a state, and is the same when it is
// written and read again.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		`{"version":1,"record":{"ID":"a","Made":1},"config":{"metadata":{"name":"p","uid":"u"}}}`,
		`{"version":1,"record":{"ID":"c","Sandbox":"a","Started":1,"Exit":{"Code":3}},
			"config":{"image":{"image":"x"},"args":["a"]}}`,
		`{"version":1,"record":{},"config":{"unknown":1}}`, `{"version":2}`,
		`{"version":1,"record":null,"config":null}`, `{}`, `null`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var sandbox Sandbox
		var sandboxConfig runtime.PodSandboxConfig
		if decode(data, &sandbox, &sandboxConfig) == nil {
			sandbox.Ready()
			sandbox.State()
			written, err := encode(sandbox, &sandboxConfig)
			if err != nil {
				t.Fatalf("write what was read: %v", err)
			}
			var again Sandbox
			var config runtime.PodSandboxConfig
			same(t, written, decode(written, &again, &config), func() ([]byte, error) { return encode(again, &config) })
		}
		var container Container
		var containerConfig runtime.ContainerConfig
		if decode(data, &container, &containerConfig) == nil {
			container.Running()
			container.State()
			written, err := encode(container, &containerConfig)
			if err != nil {
				t.Fatalf("write what was read: %v", err)
			}
			var again Container
			var config runtime.ContainerConfig
			same(t, written, decode(written, &again, &config), func() ([]byte, error) { return encode(again, &config) })
		}
	})
}

// same fails the test unless a written record was read and is written the same.
func same(t *testing.T, written []byte, err error, encode func() ([]byte, error)) {
	t.Helper()
	if err != nil {
		t.Fatalf("read %s: %v", written, err)
	}
	// protojson puts blanks at random places.
	again, err := encode()
	if err != nil || !bytes.Equal(compact(again), compact(written)) {
		t.Fatalf("%s came back as %s, %v", written, again, err)
	}
}

func compact(record []byte) []byte { return bytes.ReplaceAll(record, []byte(" "), nil) }
