// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, tc := range []struct {
		name, content string
		tail          int
		want          string
	}{
		{"all", "a\nb\n", -1, "a\nb\n"},
		{"none", "a\nb\n", 0, ""},
		{"last", "a\nb\nc\n", 1, "c\n"},
		{"last without newline", "a\nb\nc", 2, "b\nc"},
		{"more than there are", "a\nb\n", 9, "a\nb\n"},
		{"a line longer than a block", "a\n" + long + "\nc\n", 2, long + "\nc\n"},
		{"empty file", "", 3, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.log")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := printLog(t.Context(), &b, path, tc.tail, false); err != nil || b.String() != tc.want {
				t.Errorf("got %d bytes, %v; want %d", b.Len(), err, len(tc.want))
			}
		})
	}
}

func TestLogNames(t *testing.T) {
	l := cluster.Layout{DataDir: t.TempDir(), Name: "x"}
	for _, f := range []string{l.Log("server"), filepath.Join(l.Node("win-1"), "logs", "kubelet.log")} {
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(f+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	s := cli.Streams{Out: &out}
	if err := runLogs(t.Context(), s, l, nil, -1, false); err != nil || out.String() != "server\nwin-1/kubelet\n" {
		t.Errorf("list: %q, %v", out.String(), err)
	}
	out.Reset()
	if err := runLogs(t.Context(), s, l, []string{"win-1/kubelet"}, -1, false); err != nil || !strings.HasSuffix(out.String(), "kubelet.log\n") {
		t.Errorf("one: %q, %v", out.String(), err)
	}
	if err := runLogs(t.Context(), s, l, []string{"nope"}, -1, false); err == nil {
		t.Error("unknown log: want an error")
	}
}
