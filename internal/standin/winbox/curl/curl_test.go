// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// run returns what curl prints to each of its streams.
func run(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), Env{
		Args:   args,
		Stdin:  strings.NewReader(""),
		Stdout: &out,
		Stderr: &errs,
		Getenv: func(name string) string { return env[name] },
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
		{"--proto-default x y", 1, bad("--proto-default", "a specified protocol is unsupported by libcurl")},
		{"-:", 2, "curl: missing URL before --next\ncurl: option -:: is badly used here\n" + tryHelp},
		{"-s", 2, "curl: (2) no URL specified\n" + tryHelp},
		{"", 2, tryHelp},
		{"http://", 3, told(3, "URL rejected: No host part in the URL")},
		{"http://h:99999/", 3, told(3, "URL rejected: Port number was not a decimal number between 0 and 65535")},
		{"ftp://h/", 1, told(1, "Protocol \"ftp\" not supported")},
		{"--proto =https " + s.http, 1, told(1, "Protocol \"http\" disabled")},
		{"http://no-such-host.invalid", 6, told(6, "Could not resolve host: no-such-host.invalid")},
		{"-x no-such-host.invalid http://h/", 5, told(5, "Could not resolve proxy: no-such-host.invalid")},
		{s.closed, 7, told(7, "Failed to connect to 127.0.0.1 port "+port+" after 0 ms: Could not connect to server")},
		{"-f " + s.http + "/none", 22, told(22, "The requested URL returned error: 404")},
		{s.raw + "/empty", 52, told(52, "Empty reply from server")},
		{s.raw + "/garbage", 1, told(1, "Received HTTP/0.9 when not allowed")},
		{"-L " + s.http + "/loop", 47, told(47, "Maximum (50) redirects followed")},
		{s.http + "/short", 18, told(18, "end of response with 95 bytes missing")},
		{s.http + "/cut", 18, told(18, "transfer closed with outstanding read data remaining")},
		{"file:///none", 37, told(37, "Couldn't open file /none")},
		{s.http + "/{a", 3, told(3, fmt.Sprintf("unmatched brace in URL position %d:\n%s/{a\n%s^", len(s.http)+2,
			s.http, strings.Repeat(" ", len(s.http)+1)))},
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
		_, errs, code := run(t, nil, strings.Fields(tt.args)...)
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

// TestOptions: each option is implemented, or refused by name, and what is
// refused is said in docs/fidelity.
func TestOptions(t *testing.T) {
	if !slices.IsSortedFunc(options, func(a, b option) int { return cmp.Compare(a.long, b.long) }) {
		t.Error("options are not sorted")
	}
	page, err := os.ReadFile("../../../../docs/fidelity/images.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if o.do != nil {
			continue
		}
		_, errs, code := run(t, nil, "--"+o.long, "value", "http://127.0.0.1:1/")
		want := bad("--"+o.long, "the installed libcurl version does not support this")
		if errs != want || code != 2 {
			t.Errorf("--%s: exit %d, %q", o.long, code, errs)
		}
		if !bytes.Contains(page, []byte("`--"+o.long+"`")) {
			t.Errorf("docs/fidelity/images.md does not list --%s among the refused options", o.long)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct{ pattern, name, want string }{
		{"h/{a,b}/[1-3:2]", "#1.#2", "h/a/1=a.1 h/a/3=a.3 h/b/1=b.1 h/b/3=b.3"},
		{"h/[08-10]", "f#1#9", "h/08=f08#9 h/09=f09#9 h/10=f10#9"},
		{"h/[a-c]", "#1", "h/a=a h/b=b h/c=c"},
		{"[::1]:80/[1-2]", "#1", "[::1]:80/1=1 [::1]:80/2=2"},
		{`h/\{a\}`, "", "h/{a}="},
		{`h/{a\,b,c}`, "#1", "h/a,b=a,b h/c=c"},
	} {
		matches, err := glob(tt.pattern)
		var got []string
		for _, m := range matches {
			got = append(got, m.url+"="+fillName(tt.name, m.parts))
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.pattern, got, err, tt.want)
		}
	}
	if _, err := glob("[1-999][1-999]"); err == nil || err.Error() != "range overflow" {
		t.Errorf("too many: %v", err)
	}
}

// TestProxyEnvironment: which proxy is used for which URL.
func TestProxyEnvironment(t *testing.T) {
	env := map[string]string{"http_proxy": "p:1", "HTTPS_PROXY": "http://q:2", "NO_PROXY": ".example.com,10.0.0.0/8"}
	for url, want := range map[string]string{
		"http://a/":             "p:1",
		"https://a/":            "q:2",
		"http://x.example.com/": "",
		"http://example.com/":   "",
		"http://10.1.2.3/":      "",
		"http://notexample.com": "p:1",
	} {
		c := (&global{env: Env{Getenv: func(n string) string { return env[n] }}}).newClient(newOperation())
		u, err := parseURL(url, "", false)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.proxyFor(u)
		got := ""
		if p != nil {
			got = p.hostPort()
		}
		if got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
	}
}

// TestConfigFromHome: curl reads .curlrc unless -q comes first.
func TestConfigFromHome(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.UserAgent()))
	}))
	defer srv.Close()
	home := t.TempDir()
	write(t, filepath.Join(home, "_curlrc"), "user-agent = \"from home\"\n")
	env := map[string]string{"USERPROFILE": home}
	if out, _, code := run(t, env, srv.URL); out != "from home" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
	if out, _, code := run(t, env, "-q", srv.URL); out != "curl/"+version || code != 0 {
		t.Errorf("with -q: %q, %d", out, code)
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
			Getenv:   func(string) string { return "" },
			TextMode: true,
		})
		if out.String() != want {
			t.Errorf("%s: %q; want %q", args, out.String(), want)
		}
	}
}

// FuzzArguments: no command line and no file of options makes curl panic.
func FuzzArguments(f *testing.F) {
	f.Add("-sSfLo x", "url = \"x\"\n-H \"a: b\"")
	f.Add("--expand-url {{a:b64}} --variable a=1 -F a=@b;type=x", "data-urlencode=a@b\nwrite-out \"%{json}\"")
	f.Add("-r 1-2 -C - --tls-max 1.2 -z 1 -b x -m 1.5 --rate 2/3s -E a:b", "next\n")
	f.Fuzz(func(t *testing.T, line, config string) {
		t.Chdir(t.TempDir())
		write(t, "config", config)
		var out bytes.Buffer
		env := Env{Stdin: strings.NewReader(""), Getenv: func(string) string { return "" }}
		g := &global{env: env, out: &output{w: &out}, errs: &out}
		p := &parser{global: g, options: slices.Clone(options)}
		p.options = slices.DeleteFunc(p.options, func(o option) bool { return o.takes == file && o.long == "stderr" })
		p.next()
		_ = p.args(strings.Fields(line)) // whatever it says
		_ = p.configFile("config")       // the same
		for _, o := range g.operations {
			for _, n := range o.nodes {
				_, _ = glob(n.url)                            // the same
				_, _ = parseURL(n.url, o.protoDefault, false) // the same
			}
		}
	})
}
