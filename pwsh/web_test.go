// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
)

func TestWebCmdlets(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"a":[1,2],"m":%q}`, r.Method)
		case "/missing":
			w.WriteHeader(404)
			fmt.Fprint(w, "no such page")
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		default:
			w.Header().Set("X-Test", "yes")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "%s %s [%s] <a href='/x'>l</a>", r.Method, r.Header.Get("X-H"), b)
		}
	}))
	defer srv.Close()
	port := srv.URL[strings.LastIndexByte(srv.URL, ':')+1:]
	rows := rowtest.Load(t, "testdata/web.txtar")
	for i := range rows {
		rows[i].Script = strings.NewReplacer("SERVER", srv.URL, "PORT", port).Replace(rows[i].Script)
	}
	rowtest.Test(t, rows)
}

// TestCancel ends scripts that wait or loop.
func TestCancel(t *testing.T) {
	for _, script := range []string{
		"while ($true) {}",
		"Start-Sleep 600",
		"$l=[System.Net.Sockets.TcpListener]::new(0); $l.Start(); $l.AcceptTcpClient()",
		"try { while (1) {} } catch { 'caught' } finally { 'f' }",
		"function f { f }; while (1) { try { f } catch {} }",
	} {
		var out, errs bytes.Buffer
		h, _ := rowtest.Handlers(t, &out, &errs)
		r, err := pwsh.New(pwsh.Config{Handlers: h, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if _, err := r.Run(ctx, script); err == nil {
			t.Errorf("%s ended by itself", script)
		}
		cancel()
		r.Close()
		if strings.Contains(out.String(), "caught") {
			t.Errorf("%s caught the end", script)
		}
	}
}
