// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
)

// archives returns the rows of testdata/rows by the name of their file.
func archives(t testing.TB) map[string][]rowtest.Row {
	t.Helper()
	files, err := filepath.Glob("testdata/rows/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rows: %v", err)
	}
	all := map[string][]rowtest.Row{}
	for _, f := range files {
		all[strings.TrimSuffix(filepath.Base(f), ".txtar")] = rowtest.Load(t, f)
	}
	return all
}

func TestRows(t *testing.T) {
	for name, rows := range archives(t) {
		t.Run(name, func(t *testing.T) { rowtest.Test(t, rows) })
	}
}

// FuzzRun runs any text with bounds: it must neither panic nor run on.
func FuzzRun(f *testing.F) {
	for _, rows := range archives(f) {
		for _, r := range rows {
			if !strings.Contains(r.Script, "sh -c") { // programs are not run from fuzzed text
				f.Add(r.Script)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out, errs bytes.Buffer
		h, _ := rowtest.Handlers(t, &out, &errs)
		h.Exec, h.LookPath, h.Files, h.Sleep = nil, nil, nil, func(context.Context, time.Duration) error { return nil }
		r, err := pwsh.New(pwsh.Config{Handlers: h, Edition: pwsh.Core, MaxStatements: 3000, MaxDepth: 60})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		// A script that waits for something is ended.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if _, err := r.Run(ctx, text); err != nil && strings.Contains(err.Error(), "internal error") {
			t.Fatalf("%v\nscript: %q", err, text)
		}
	})
}

// FuzzData reads any text as JSON and as CSV, and what is written of it again.
func FuzzData(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5,"x",null,true],"A":{"b":{}}}`, `"2024-02-30T10:00:00Z"`, `[[[]]]`, `1e999`, `{"a":`, `-0`,
		"a,b\n1,\"2\n3\"\"\"\n", "a,a\n,\n", `"`, ``,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out, errs bytes.Buffer
		h, _ := rowtest.Handlers(t, &out, &errs)
		h.Exec, h.LookPath, h.Files = nil, nil, nil
		quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
		for _, edition := range []pwsh.Edition{pwsh.Desktop, pwsh.Core} {
			r, err := pwsh.New(pwsh.Config{Handlers: h, Edition: edition, MaxStatements: 3000, MaxDepth: 60})
			if err != nil {
				t.Fatal(err)
			}
			for _, script := range []string{
				quoted + " | ConvertFrom-Json | ConvertTo-Json -Depth 20 | ConvertFrom-Json | Out-String",
				quoted + " | ConvertFrom-Csv | ConvertTo-Csv | ConvertFrom-Csv | Out-String",
			} {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				if _, err := r.Run(ctx, script); err != nil && strings.Contains(err.Error(), "internal error") {
					t.Errorf("%v\nscript: %q", err, script)
				}
				cancel()
			}
			r.Close()
		}
	})
}
