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
	for _, x := range []rowtest.Row{
		{Name: "get", Script: "$r = Invoke-WebRequest -UseBasicParsing -Uri U/; $r.StatusCode; $r.Content; $r.Headers['X-Test']; $r.Links[0].href", Want: "200\nGET  [] <a href='/x'>l</a>\nyes\n/x\n"},
		{Name: "post", Script: "(iwr U/ -Method Post -Body 'b' -Headers @{'X-H'='h'} -UseBasicParsing).Content; (Invoke-RestMethod U/ -Method PUT -Body @{k='v'})", Want: "POST h [b] <a href='/x'>l</a>\nPUT  [k=v] <a href='/x'>l</a>\n"},
		{Name: "json", Script: "$j = Invoke-RestMethod U/json; $j.a -join ','; $j.m", Want: "1,2\nGET\n"},
		{Name: "not found", Script: "try { iwr U/missing -UseBasicParsing } catch { [int]$_.Exception.Response.StatusCode; $_.Exception.Message; $_.Exception.GetType().Name }", Want: "404\nThe remote server returned an error: (404) Not Found.\nWebException\n"},
		{Name: "not found in 7", Core: true, Script: "try { iwr U/missing } catch { $_.Exception.Response.StatusCode; $_.Exception.Message }; (iwr U/missing -SkipHttpErrorCheck).StatusCode", Want: "NotFound\nResponse status code does not indicate success: 404 (Not Found).\n404\n"},
		{Name: "file", Script: "iwr U/ -OutFile o.txt; (gc o.txt).Length; (New-Object Net.WebClient).DownloadString('U/'); (New-Object System.Net.WebClient).DownloadFile('U/','w.txt'); Test-Path w.txt", Want: "26\nGET  [] <a href='/x'>l</a>\nTrue\n"},
		{Name: "redirect", Script: "(iwr U/moved -UseBasicParsing).StatusCode", Want: "200\n"},
		{Name: "probe", Script: "$r = iwr U/ -UseBasicParsing -TimeoutSec 5; if ($r.StatusCode -ne 200) { exit 1 }; exit 0", Want: ""},
		{Name: "test-netconnection", Script: "Test-NetConnection 127.0.0.1 -Port P -InformationLevel Quiet", Want: "True\n"},
	} {
		t.Run(x.Name, func(t *testing.T) {
			script := strings.ReplaceAll(strings.ReplaceAll(x.Script, "U/", srv.URL+"/"), "-Port P", "-Port "+srv.URL[strings.LastIndexByte(srv.URL, ':')+1:])
			x.Script = script
			out, errs := rowtest.Run(t, x)
			if out != x.Want || errs != "" {
				t.Errorf("got %q %q, want %q", out, errs, x.Want)
			}
		})
	}
}

// TestCancel ends scripts that wait or loop.
func TestCancel(t *testing.T) {
	for _, script := range []string{"while ($true) {}", "Start-Sleep 600", "$l=[System.Net.Sockets.TcpListener]::new(0); $l.Start(); $l.AcceptTcpClient()", "try { while (1) {} } catch { 'caught' } finally { 'f' }", "function f { f }; while (1) { try { f } catch {} }"} {
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
