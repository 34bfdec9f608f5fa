// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"net/http"
	"testing"
)

// BenchmarkAnswers: what an answer costs from body to body, without HTTP's
// connections.
func BenchmarkAnswers(b *testing.B) {
	server := NewServer(handlers(fixed(mixed(b))), discard())
	body := review(b, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, spec: {containers: [
		{name: web, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
		  env: [{name: A, value: b}, {name: C, value: d}]},
		{name: log, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
		  volumeMounts: [{name: v, mountPath: 'C:\logs'}]},
	], volumes: [{name: v, emptyDir: {}}]}}`, "", "")
	for _, path := range []string{"/placement", "/rules", "/alone"} {
		b.Run(path[1:], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if w := post(server, path, body); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
