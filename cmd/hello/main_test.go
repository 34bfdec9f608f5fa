// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build linux

package main

import (
	"net/http/httptest"
	"testing"
)

func TestAnswer(t *testing.T) {
	back := httptest.NewServer(answer("back", ""))
	defer back.Close()
	for _, tt := range []struct {
		backend, want string
		code          int
	}{
		{"", "Linux container front\n", 200},
		{back.URL, "Linux container front\nbehind it: Linux container back\n", 200},
		{"http://127.0.0.1:0", "", 502},
	} {
		w := httptest.NewRecorder()
		answer("front", tt.backend).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != tt.code || tt.want != "" && w.Body.String() != tt.want {
			t.Errorf("%q: %d %q", tt.backend, w.Code, w.Body)
		}
	}
}
