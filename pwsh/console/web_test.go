// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
	"github.com/mullion-k8s/mullion/pwsh/internal/cmdlet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
)

// guide is the guide's web server as Kubernetes passes it to powershell.exe.
func guide(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../internal/syntax/testdata/scripts/guide_webserver.ps1")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// portNetwork listens on a free port, whatever port a script asks for.
type portNetwork struct {
	*hosttest.Network
	asked string
	addr  chan string
}

func (n *portNetwork) Listen(_ context.Context, _, address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		n.asked = address
		n.addr <- ln.Addr().String()
	}
	return ln, err
}

// serve runs a script that listens, and gives the address and a function that
// ends it and returns what it printed.
func serve(t *testing.T, args ...string) (addr string, stop func() (out, errs string, code int)) {
	t.Helper()
	var out, errs bytes.Buffer
	h, fake := fakes(t, &out, &errs)
	n := &portNetwork{Network: fake, addr: make(chan string, 1)}
	h.Net = n
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	code := 0
	wg.Go(func() {
		code = Main(ctx, nil, `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`, args, h, false, false, t.TempDir())
	})
	once := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(once)
	select {
	case addr = <-n.addr:
	case <-time.After(30 * time.Second):
		once()
		t.Fatalf("the script does not listen; it printed %s %s", out.String(), errs.String())
	}
	return addr, func() (string, string, int) { once(); return out.String(), errs.String(), code }
}

func fetch(t *testing.T, method, url, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() // read only
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// TestGuideWebServer runs the script of the Windows guide byte for byte.
func TestGuideWebServer(t *testing.T) {
	addr, stop := serve(t, "-command", guide(t))
	for i := 1; i <= 3; i++ {
		resp, body := fetch(t, "GET", "http://"+addr+"/page?x=1", "")
		want := fmt.Sprintf("<html><body><H1>Windows Container Web Server</H1><p>IP 10.244.1.7 callerCount %d </body></html>", i)
		if resp.StatusCode != 200 || body != want {
			t.Errorf("request %d: got %d %q, want %q", i, resp.StatusCode, body, want)
		}
		if got := resp.Header.Get("Server"); got != "Microsoft-HTTPAPI/2.0" {
			t.Errorf("Server: %q", got)
		}
	}
	out, errs, _ := stop()
	want := "Listening at http://*:80/\n\n> http://" + addr + "/page?x=1\n<html>"
	if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "< 200\n") || errs != "" {
		t.Errorf("printed %q, errors %q", out, errs)
	}
}

// TestListener tries what else scripts do with a request.
func TestListener(t *testing.T) {
	addr, stop := serve(t, "-Command", `
$l = [System.Net.HttpListener]::new(); $l.Prefixes.Add('http://+:8080/app/'); $l.Start()
while ($l.IsListening) {
  $c = $l.GetContext(); $q = $c.Request; $r = $c.Response
  $body = (New-Object IO.StreamReader($q.InputStream, $q.ContentEncoding)).ReadToEnd()
  $r.StatusCode = 201; $r.ContentType = 'text/plain'; $r.Headers.Add('X-A', $q.Headers['X-In']); $r.AddHeader('X-B', '2')
  $text = "$($q.HttpMethod) $($q.Url.AbsolutePath) $($q.QueryString['k']) [$body] $($q.RemoteEndPoint.Address) $($q.HasEntityBody)"
  $b = [Text.Encoding]::UTF8.GetBytes($text); $r.OutputStream.Write($b, 0, $b.Length); $r.OutputStream.Close()
  if ($q.Url.AbsolutePath -like '*/stop') { $l.Stop() }
}
'stopped'; exit 3`)
	resp, body := fetch(t, "POST", "http://"+addr+"/app/x?k=v", "hello")
	if resp.StatusCode != 201 || body != "POST /app/x v [hello] 127.0.0.1 True" || resp.Header.Get("X-B") != "2" || resp.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("got %d %q %v", resp.StatusCode, body, resp.Header)
	}
	if resp, _ := fetch(t, "GET", "http://"+addr+"/other", ""); resp.StatusCode != 404 {
		t.Errorf("a path without a prefix gives %d", resp.StatusCode)
	}
	if resp, body := fetch(t, "GET", "http://"+addr+"/app/stop", ""); resp.StatusCode != 201 {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	out, errs, code := stop()
	if out != "stopped\n" || code != 3 {
		t.Errorf("printed %q %q, exit %d", out, errs, code)
	}
}

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
	for _, x := range []row{
		{name: "get", script: "$r = Invoke-WebRequest -UseBasicParsing -Uri U/; $r.StatusCode; $r.Content; $r.Headers['X-Test']; $r.Links[0].href", want: "200\nGET  [] <a href='/x'>l</a>\nyes\n/x\n"},
		{name: "post", script: "(iwr U/ -Method Post -Body 'b' -Headers @{'X-H'='h'} -UseBasicParsing).Content; (Invoke-RestMethod U/ -Method PUT -Body @{k='v'})", want: "POST h [b] <a href='/x'>l</a>\nPUT  [k=v] <a href='/x'>l</a>\n"},
		{name: "json", script: "$j = Invoke-RestMethod U/json; $j.a -join ','; $j.m", want: "1,2\nGET\n"},
		{name: "not found", script: "try { iwr U/missing -UseBasicParsing } catch { [int]$_.Exception.Response.StatusCode; $_.Exception.Message; $_.Exception.GetType().Name }", want: "404\nThe remote server returned an error: (404) Not Found.\nWebException\n"},
		{name: "not found in 7", core: true, script: "try { iwr U/missing } catch { $_.Exception.Response.StatusCode; $_.Exception.Message }; (iwr U/missing -SkipHttpErrorCheck).StatusCode", want: "NotFound\nResponse status code does not indicate success: 404 (Not Found).\n404\n"},
		{name: "file", script: "iwr U/ -OutFile o.txt; (gc o.txt).Length; (New-Object Net.WebClient).DownloadString('U/'); (New-Object System.Net.WebClient).DownloadFile('U/','w.txt'); Test-Path w.txt", want: "26\nGET  [] <a href='/x'>l</a>\nTrue\n"},
		{name: "redirect", script: "(iwr U/moved -UseBasicParsing).StatusCode", want: "200\n"},
		{name: "probe", script: "$r = iwr U/ -UseBasicParsing -TimeoutSec 5; if ($r.StatusCode -ne 200) { exit 1 }; exit 0", want: ""},
		{name: "test-netconnection", script: "Test-NetConnection 127.0.0.1 -Port P -InformationLevel Quiet", want: "True\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			script := strings.ReplaceAll(strings.ReplaceAll(x.script, "U/", srv.URL+"/"), "-Port P", "-Port "+srv.URL[strings.LastIndexByte(srv.URL, ':')+1:])
			out, errs := runScript(t, script, x.core)
			if out != x.want || errs != "" {
				t.Errorf("got %q %q, want %q", out, errs, x.want)
			}
		})
	}
}

// TestCancel ends scripts that wait or loop.
func TestCancel(t *testing.T) {
	for _, script := range []string{"while ($true) {}", "Start-Sleep 600", "$l=[System.Net.Sockets.TcpListener]::new(0); $l.Start(); $l.AcceptTcpClient()", "try { while (1) {} } catch { 'caught' } finally { 'f' }", "function f { f }; while (1) { try { f } catch {} }"} {
		var out, errs bytes.Buffer
		h, _ := fakes(t, &out, &errs)
		r, err := interp.New(interp.Config{Handlers: h, Library: cmdlet.Library(), Edition: syntax.Desktop, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if _, err := r.RunText(ctx, "", script); err == nil {
			t.Errorf("%s ended by itself", script)
		}
		cancel()
		r.Close()
		if strings.Contains(out.String(), "caught") {
			t.Errorf("%s caught the end", script)
		}
	}
}
