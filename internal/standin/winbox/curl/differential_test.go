// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// A differential is a command line of testdata/commands.txt. curl itself runs it
// too, where it is installed: exit codes, standard output and files must be the
// same.
type differential struct {
	args   string
	stdin  string
	since8 bool // curl 8.13 does otherwise than the 7.88 of Debian 12
}

func readDifferentials(t *testing.T) []differential {
	t.Helper()
	data, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []differential
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var d differential
		line, d.since8 = strings.CutPrefix(line, "[8] ")
		args, stdin, ok := strings.Cut(line, " <<< ")
		if ok {
			if stdin, err = strconv.Unquote(stdin); err != nil {
				t.Fatal(line, err)
			}
		}
		d.args, d.stdin = args, stdin
		all = append(all, d)
	}
	return all
}

// inputs are the files that command lines read.
var inputs = map[string]string{
	"in.txt":      "line one\nline two\r\nend",
	"headers.txt": "X-One: 1\nX-Two: 2\r\n# no\n\nX-Three: 3\n",
	"format.txt":  "<%{http_code}>\n",
}

// TestDifferential compares with testdata/differential.txt, and that with curl.
func TestDifferential(t *testing.T) {
	s := startServers(t)
	real, err := exec.LookPath("curl")
	if err != nil {
		t.Log("curl is not installed: only compared with what it printed before")
	}
	var golden bytes.Buffer
	for _, d := range readDifferentials(t) {
		t.Run(d.args, func(t *testing.T) {
			ours := s.perform(t, d, func(dir string, args []string) (string, int) {
				return runOurs(t, dir, args, d.stdin)
			})
			fmt.Fprintf(&golden, "$ curl %s\n%s\n", d.args, ours)
			if real == "" || d.since8 {
				return
			}
			theirs := s.perform(t, d, func(dir string, args []string) (string, int) {
				return runReal(t, real, dir, args, d.stdin)
			})
			if theirs != ours {
				t.Errorf("ours:\n%s\ncurl's:\n%s", ours, theirs)
			}
		})
	}
	testenv.Golden(t, "differential.txt", golden.Bytes())
}

func runOurs(t *testing.T, dir string, args []string, stdin string) (string, int) {
	t.Helper()
	t.Chdir(dir)
	var out bytes.Buffer
	env := Env{
		Args:   args,
		Stdin:  strings.NewReader(stdin),
		Stdout: &out,
		Stderr: io.Discard,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	code := Run(ctx, env)
	return out.String(), code
}

func runReal(t *testing.T, path, dir string, args []string, stdin string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(stdin), []string{"HOME=" + dir, "no_proxy="}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// perform runs a command line in a new directory and describes what it
// did, without what changes from run to run.
func (s *servers) perform(t *testing.T, d differential, run func(dir string, args []string) (string, int)) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range inputs {
		write(t, filepath.Join(dir, name), content)
	}
	write(t, filepath.Join(dir, "ca.pem"), s.ca)
	s.flaky = 0
	hostOf := func(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
	words := strings.NewReplacer("HOST", s.http, "RAW", s.raw, "TLS", s.tls, "PORT", hostOf(s.raw),
		"PLAIN", hostOf(s.http), "CLOSED", s.closed, "DIR", dir)
	var args []string
	for _, m := range regexp.MustCompile(`'([^']*)'|\S+`).FindAllStringSubmatch(d.args, -1) {
		word := m[0]
		if strings.HasPrefix(word, "'") {
			word = m[1]
		}
		args = append(args, words.Replace(word))
	}
	out, code := run(dir, args)
	var b strings.Builder
	fmt.Fprintf(&b, "exit %d\n%s", code, out)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if string(data) != inputs[name] && name != "ca.pem" {
			fmt.Fprintf(&b, "\n-- %s --\n%s", name, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, r := range []string{s.http, s.raw, s.tls, s.closed, hostOf(s.http), hostOf(s.raw), hostOf(s.tls), dir} {
		text = strings.ReplaceAll(text, r, "SERVER")
	}
	text = regexp.MustCompile(`curl/[0-9.]+`).ReplaceAllString(text, "curl/N")
	text = regexp.MustCompile(`after \d+ m`).ReplaceAllString(text, "after N m")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// servers are those that command lines talk to.
type servers struct {
	http, raw, tls, closed string // URLs without a path
	ca                     string
	flaky                  int
}

func startServers(t *testing.T) *servers {
	t.Helper()
	s := &servers{}
	mux := s.handlers()
	plain := httptest.NewServer(mux)
	secure := httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshakes
	secure.StartTLS()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.http, s.tls = plain.URL, secure.URL
	s.raw, s.closed = "http://"+l.Addr().String(), "http://"+closed.Addr().String()
	s.ca = pemOf(secure.Certificate().Raw)
	_ = closed.Close()
	go serveRaw(l)
	t.Cleanup(func() {
		plain.CloseClientConnections()
		plain.Close()
		secure.Close()
		_ = l.Close()
	})
	return s
}

// serveRaw answers each request with itself, so that order and spelling count.
func serveRaw(l net.Listener) {
	for {
		k, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer k.Close()
			_ = k.SetDeadline(time.Now().Add(10 * time.Second))
			r := bufio.NewReader(k)
			head, err := readHead(r)
			if err != nil {
				return
			}
			if strings.Contains(head, "Expect:") {
				_, _ = io.WriteString(k, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), r)))
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			switch {
			case strings.HasSuffix(req.URL.Path, "/empty"):
				return
			case strings.HasSuffix(req.URL.Path, "/garbage"):
				_, _ = io.WriteString(k, "garbage\r\n")
				return
			}
			text := head + string(body)
			if req.Method == http.MethodHead {
				text = ""
			}
			_, _ = fmt.Fprintf(k, "HTTP/1.1 200 OK\r\nX-Raw: yes\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
				len(text), text)
		}()
	}
}

func (s *servers) handlers() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, f func(http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = nil // the same in each run
			f(w, r)
		})
	}
	text := func(s string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Test", "tested")
			_, _ = io.WriteString(w, s)
		}
	}
	handle("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, "not here\n")
	})
	handle("/ok", text("hello\n"))
	handle("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s\n%s\n", r.Method, r.URL, r.Header.Get("Authorization"), body)
	})
	handle("/files/", func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "file %s\n", r.URL.Path) })
	handle("/form", func(w http.ResponseWriter, r *http.Request) {
		mr, err := r.MultipartReader()
		if err != nil {
			_, _ = fmt.Fprintln(w, err)
			return
		}
		for {
			p, err := mr.NextPart()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(p)
			_, _ = fmt.Fprintf(w, "%s %s %q\n", p.Header.Get("Content-Disposition"), p.Header.Get("Content-Type"), data)
		}
	})
	for _, code := range []int{301, 302, 303, 307} {
		handle(fmt.Sprintf("/jump/%d", code), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/echo")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "moved\n")
		})
	}
	handle("/jump/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/hosts", http.StatusFound)
	})
	handle("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.raw+"/", http.StatusFound) })
	handle("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	s.faults(handle)
	return mux
}

// faults are answers that are cut, slow or late.
func (s *servers) faults(handle func(string, func(http.ResponseWriter, *http.Request))) {
	hijack := func(answer string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			k, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(k, answer)
				_ = k.Close()
			}
		}
	}
	handle("/short", hijack("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"))
	handle("/cut", hijack("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"))
	handle("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	handle("/flaky", func(w http.ResponseWriter, _ *http.Request) {
		if s.flaky++; s.flaky < 2 {
			w.WriteHeader(503)
			_, _ = io.WriteString(w, "later\n")
			return
		}
		_, _ = io.WriteString(w, "now\n")
	})
}
