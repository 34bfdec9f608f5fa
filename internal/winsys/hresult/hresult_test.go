// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hresult

import (
	"errors"
	"fmt"
	"testing"
)

func TestOf(t *testing.T) {
	cause := errors.New("disk is full")
	for _, tc := range []struct {
		name string
		err  error
		want Code
	}{
		{"nil", nil, OK},
		{"plain", cause, Fail},
		{"error", Errorf(PortAlreadyExists, "create endpoint x"), PortAlreadyExists},
		{"wrapped", fmt.Errorf("call: %w", Errorf(NotFound, "open namespace x")), NotFound},
		{"bare code", fmt.Errorf("call: %w", NotImplemented), NotImplemented},
	} {
		if got := Of(tc.err); got != tc.want {
			t.Errorf("%s: Of = %s, want %s", tc.name, got, tc.want)
		}
	}
	err := error(Errorf(DiskFull, "write journal: %w", cause))
	if !errors.Is(err, cause) || !errors.Is(err, DiskFull) || errors.Is(err, NotFound) {
		t.Errorf("%v: Is is wrong", err)
	}
	if got, want := err.Error(),
		"write journal: disk is full: 0x80070070 There is not enough space on the disk"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestMessage(t *testing.T) {
	e := &Error{Code: InvalidJSONReference, Detail: "A Reference is required"}
	if got, want := Text(fmt.Errorf("x: %w", e)),
		"The reference is invalid in the JSON document. A Reference is required"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	if !NotFound.Failed() || Code(1).Failed() {
		t.Error("Failed must look at bit 31 only")
	}
}
