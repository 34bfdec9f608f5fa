// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// run returns what curl prints to each of its streams.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), Env{
		Args:   args,
		Stdin:  strings.NewReader(""),
		Stdout: &out,
		Stderr: &errs,
	})
	return out.String(), errs.String(), code
}

const tryHelp = "curl: try 'curl --help' for more information\n"

// TestMessages: texts of curl 8.13, from its sources.
func TestMessages(t *testing.T) {
	s := startServers(t)
	t.Chdir(t.TempDir())
	closed := strings.TrimPrefix(s.closed, "http://")
	_, port, _ := net.SplitHostPort(closed)
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--foo", 2, bad("--foo", "is unknown")},
		{"-sé", 2, bad("-sé", "is unknown")},
		{"-sX", 2, bad("-sX", "requires parameter")},
		{"--no-data", 2, bad("--no-data", "the given option cannot be reversed with a --no- prefix")},
		{"--http3 x", 2, bad("--http3", "the installed libcurl version does not support this")},
		{"-m x", 2, bad("-m", "expected a proper numerical parameter")},
		{"--retry -1", 2, bad("--retry", "expected a positive numerical parameter")},
		{"--retry 99999999999", 2, bad("--retry", "too large number")},
		{"-d @none", 26, "curl: Failed to open none\n" + bad("-d", "error encountered when reading a file")},
		{"-X", 2, bad("-X", "requires parameter")},
		{"-x p:1 h", 2, bad("-x", "the installed libcurl version does not support this")},
		{"-b file h", 2, bad("-b", "the installed libcurl version does not support this")},
		{"-s", 2, "curl: (2) no URL specified\n" + tryHelp},
		{"", 2, tryHelp},
		{"http://", 3, told(3, "URL rejected: No host part in the URL")},
		{"http://h:99999/", 3, told(3, "URL rejected: Port number was not a decimal number between 0 and 65535")},
		{"ftp://h/", 1, told(1, "Protocol \"ftp\" not supported")},
		{"http://no-such-host.invalid", 6, told(6, "Could not resolve host: no-such-host.invalid")},
		{s.closed, 7, told(7, "Failed to connect to 127.0.0.1 port "+port+" after 0 ms: Could not connect to server")},
		{"-f " + s.http + "/none", 22, told(22, "The requested URL returned error: 404")},
		{s.raw + "/empty", 52, told(52, "Empty reply from server")},
		{s.raw + "/garbage", 1, told(1, "Received HTTP/0.9 when not allowed")},
		{"-L " + s.http + "/loop", 47, told(47, "Maximum (50) redirects followed")},
		{s.http + "/short", 18, told(18, "end of response with 95 bytes missing")},
		{s.http + "/cut", 18, told(18, "transfer closed with outstanding read data remaining")},
		{"file:///none", 1, told(1, "Protocol \"file\" not supported")},
		{"h/{a,b}", 3, told(3, "mullion's curl does not expand patterns in URLs: -g takes h/{a,b} as it is")},
		{s.tls, 60, told(60, "schannel: SEC_E_UNTRUSTED_ROOT (0x80090325) - "+
			"The certificate chain was issued by an authority that is not trusted.") + badPeerHelp},
		{
			"-o missing/file " + s.http + "/ok", 23,
			"Warning: Failed to open the file missing/file: No such file or directory\n" +
				told(23, "Failure writing output to destination, passed 6 returned 0"),
		},
		{
			"--retry 1 --retry-delay 1 -f -m 5 " + s.http + "/flaky", 0,
			told(22, "The requested URL returned error: 503") +
				"Warning: Problem : HTTP error. Will retry in 1 second. 1 retry left.\n",
		},
		{"-w %{nothing} -o NUL " + s.http + "/ok", 0, "curl: unknown --write-out variable: 'nothing'\n"},
	} {
		_, errs, code := run(t, strings.Fields(tt.args)...)
		if tt.code == 7 {
			errs = replaceMilliseconds(errs)
		}
		if errs != tt.want || code != tt.code {
			t.Errorf("curl %s: exit %d\n%swant %d\n%s", tt.args, code, errs, tt.code, tt.want)
		}
	}
}

// bad returns the message about an option, told the one about a transfer.
func bad(option, why string) string { return "curl: option " + option + ": " + why + "\n" + tryHelp }

func told(code int, text string) string { return fmt.Sprintf("curl: (%d) %s\n", code, text) }

func replaceMilliseconds(s string) string {
	before, after, ok := strings.Cut(s, " after ")
	if !ok {
		return s
	}
	_, after, _ = strings.Cut(after, " ms")
	return before + " after 0 ms" + after
}

// TestOptions: each option is implemented, ignored or refused by name, and
// docs/fidelity lists those that are not refused.
func TestOptions(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/fidelity/images.md")
	if err != nil {
		t.Fatal(err)
	}
	accepted := strings.Fields(ignoredFlags + " " + ignoredValues)
	for _, o := range options {
		accepted = append(accepted, o.long)
	}
	for _, name := range accepted {
		if !bytes.Contains(page, []byte("`--"+name+"`")) {
			t.Errorf("docs/fidelity/images.md does not list --%s", name)
		}
	}
	for name := range strings.FieldsSeq(refused) {
		_, errs, code := run(t, "--"+name, "value", "http://127.0.0.1:1/")
		want := bad("--"+name, "the installed libcurl version does not support this")
		if errs != want || code != 2 || slices.Contains(accepted, name) {
			t.Errorf("--%s: exit %d, %q", name, code, errs)
		}
	}
	for letter, name := range shorts {
		if o, ok := findShort(letter); !ok || o.long != name {
			t.Errorf("-%c is %+v, not --%s", letter, o, name)
		}
	}
}

// TestIgnored: options that change nothing take the value that curl's take.
func TestIgnored(t *testing.T) {
	s := startServers(t)
	args := append(strings.Fields("-qsN --no-alpn --noproxy * --keepalive-time 5 --tlsv1.2 -#"), s.http+"/ok")
	if out, errs, code := run(t, args...); out != "hello\n" || code != 0 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// TestResolve: --resolve takes the place of the name service.
func TestResolve(t *testing.T) {
	s := startServers(t)
	_, number, _ := net.SplitHostPort(strings.TrimPrefix(s.http, "http://"))
	name := "example.test:" + number
	out, errs, code := run(t, "-s", "--resolve", name+":127.0.0.1", "http://"+name+"/ok")
	if out != "hello\n" || code != 0 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// TestURL: the parts of a URL that requests use.
func TestURL(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"h", "http://h/ 80 h"},
		{"https://u:p@h:443/a/../b?q=[]#f", "https://u:p@h:443/b?q=[]#f 443 h"},
		{"http://[::1]:81/a", "http://[::1]:81/a 81 [::1]:81"},
		{"http://[fe80::1%25eth0]", "http://[fe80::1%25eth0]/ 80 [fe80::1]"},
		{"h/[1-2]", "curl: (3)"},
		{"http://h/{a}", "curl: (3)"},
	} {
		u, err := parseURL(tt.url, false)
		got := fmt.Sprintf("curl: (%d)", codeOf(err))
		if err == nil {
			got = fmt.Sprintf("%s %s %s", u, port(u), hostHeader(u))
		}
		if got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.url, got, err, tt.want)
		}
	}
}

// TestTextMode: line ends of Windows, unless a body is written.
func TestTextMode(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("a\n"))
	}))
	defer srv.Close()
	for args, want := range map[string]string{"-s -w x\\n": "a\nx\n", "-s -o NUL -w x\\n": "x\r\n"} {
		var out bytes.Buffer
		Run(t.Context(), Env{
			Args:     append(strings.Fields(args), srv.URL),
			Stdout:   &out,
			Stderr:   &out,
			TextMode: true,
		})
		if out.String() != want {
			t.Errorf("%s: %q; want %q", args, out.String(), want)
		}
	}
}

// FuzzArguments: no command line makes curl panic.
func FuzzArguments(f *testing.F) {
	f.Add("-sSfLo x")
	f.Add("-F a=@b;type=x --data-urlencode a@b --json {} -u a http://[::1]/{a}")
	f.Add("-m 1.5 --retry 2 --resolve a:1:b -b x=y -T f -w %{http_code}%header{x} x:1")
	f.Fuzz(func(t *testing.T, line string) {
		t.Chdir(t.TempDir())
		var out bytes.Buffer
		c := &client{
			env: Env{Stdin: strings.NewReader(""), Stderr: &out},
			out: &output{w: &out},
		}
		_ = c.args(strings.Fields(line)) // any mistake
		for _, u := range c.opts.urls {
			_, _ = parseURL(u, c.opts.globOff) // the same
		}
		tr := &transfer{client: c, url: &url.URL{}, sink: &sink{c: c}}
		tr.begin()
		tr.writeOutput()
	})
}
