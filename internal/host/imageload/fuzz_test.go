// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package imageload

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzAnswer: an answer names images or is an error, and the images are the same
// when they are sent and read again.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"images":[{"names":["a:1"],"os":"windows","osVersion":"10.0.17763.1"}]}`, `{"error":"no"}`,
		`{"images":null}`, `{"images":[{}]}`, `<html>`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		images, err := parseAnswer("200 OK", body)
		if err != nil {
			if len(images) > 0 {
				t.Errorf("images beside the error %v", err)
			}
			return
		}
		sent, err := json.Marshal(answer{Images: images})
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseAnswer("200 OK", sent)
		if err != nil || len(images) > 0 && !reflect.DeepEqual(again, images) {
			t.Errorf("%+v came back as %+v, %v", images, again, err)
		}
	})
}
