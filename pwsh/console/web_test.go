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
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
)

// guide returns the guide's web server as Kubernetes passes it to powershell.exe.
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
	h, fake := rowtest.Handlers(t, &out, &errs)
	n := &portNetwork{Network: fake, addr: make(chan string, 1)}
	h.Net = n
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	code := 0
	wg.Go(func() {
		code = Main(ctx, nil, `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`, args, h, false, false,
			t.TempDir())
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
		want := fmt.Sprintf("<html><body><H1>Windows Container Web Server</H1><p>IP 10.244.1.7 callerCount %d "+
			"</body></html>", i)
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
  $r.StatusCode = 201; $r.ContentType = 'text/plain'
  $r.Headers.Add('X-A', $q.Headers['X-In']); $r.AddHeader('X-B', '2')
  $text = "$($q.HttpMethod) $($q.Url.AbsolutePath) $($q.QueryString['k']) [$body] " +
    "$($q.RemoteEndPoint.Address) $($q.HasEntityBody)"
  $b = [Text.Encoding]::UTF8.GetBytes($text); $r.OutputStream.Write($b, 0, $b.Length); $r.OutputStream.Close()
  if ($q.Url.AbsolutePath -like '*/stop') { $l.Stop() }
}
'stopped'; exit 3`)
	resp, body := fetch(t, "POST", "http://"+addr+"/app/x?k=v", "hello")
	if resp.StatusCode != 201 || body != "POST /app/x v [hello] 127.0.0.1 True" || resp.Header.Get("X-B") != "2" ||
		resp.Header.Get("Content-Type") != "text/plain" {
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
