// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A variable of --write-out is a number, a text, or absent.
type writeVariable func(t *transfer) any

// writeVariables lists them: curl.se/docs/manpage.html#-w.
var writeVariables = map[string]writeVariable{
	"certs":                   func(t *transfer) any { return t.certificates() },
	"conn_id":                 func(t *transfer) any { return max(t.stats.connects-1, 0) },
	"content_type":            func(t *transfer) any { return optional(t.header("Content-Type")) },
	"errormsg":                func(t *transfer) any { return t.errorText() },
	"exitcode":                func(t *transfer) any { return codeOf(t.err) },
	"filename_effective":      func(t *transfer) any { return optional(t.sink.name) },
	"ftp_entry_path":          func(*transfer) any { return nil },
	"http_code":               func(t *transfer) any { return t.status() },
	"http_connect":            func(t *transfer) any { return t.stats.connectCode },
	"http_version":            func(t *transfer) any { return t.httpVersion() },
	"local_ip":                func(t *transfer) any { return t.stats.localIP },
	"local_port":              func(t *transfer) any { return portNumber(t.stats.localPort) },
	"method":                  func(t *transfer) any { return t.effectiveMethod() },
	"num_certs":               func(t *transfer) any { return t.certificateCount() },
	"num_connects":            func(t *transfer) any { return t.stats.connects },
	"num_headers":             func(t *transfer) any { return t.headerCount() },
	"num_redirects":           func(t *transfer) any { return t.stats.redirects },
	"num_retries":             func(t *transfer) any { return t.stats.retries },
	"proxy_ssl_verify_result": func(*transfer) any { return 0 },
	"proxy_used":              func(t *transfer) any { return map[bool]int{true: 1}[t.stats.proxyUsed] },
	"redirect_url":            func(t *transfer) any { return t.redirectURL() },
	"referer":                 func(t *transfer) any { return optional(t.c.o.referer) },
	"remote_ip":               func(t *transfer) any { return t.stats.remoteIP },
	"remote_port":             func(t *transfer) any { return portNumber(t.stats.remotePort) },
	"response_code":           func(t *transfer) any { return t.status() },
	"scheme":                  func(t *transfer) any { return t.part(func(u *address) string { return u.scheme }) },
	"size_download":           func(t *transfer) any { return t.stats.downloaded },
	"size_header":             func(t *transfer) any { return t.stats.headerSize },
	"size_request":            func(t *transfer) any { return t.stats.requestSize + t.stats.uploaded },
	"size_upload":             func(t *transfer) any { return t.stats.uploaded },
	"speed_download":          func(t *transfer) any { return perSecond(t.stats.downloaded, t.stats.total) },
	"speed_upload":            func(t *transfer) any { return perSecond(t.stats.uploaded, t.stats.total) },
	"ssl_verify_result":       func(*transfer) any { return 0 },
	"time_appconnect":         func(t *transfer) any { return t.stats.appConnect },
	"time_connect":            func(t *transfer) any { return t.stats.connect },
	"time_namelookup":         func(t *transfer) any { return t.stats.nameLookup },
	"time_posttransfer":       func(t *transfer) any { return t.stats.postTransfer },
	"time_pretransfer":        func(t *transfer) any { return t.stats.preTransfer },
	"time_queue":              func(*transfer) any { return time.Duration(0) },
	"time_redirect":           func(t *transfer) any { return t.stats.redirect },
	"time_starttransfer":      func(t *transfer) any { return t.stats.startTransfer },
	"time_total":              func(t *transfer) any { return t.stats.total },
	"tls_earlydata":           func(*transfer) any { return 0 },
	"url":                     func(t *transfer) any { return t.input },
	"url_effective":           func(t *transfer) any { return t.effectiveURL() },
	"urlnum":                  func(t *transfer) any { return t.number },
	"xfer_id":                 func(t *transfer) any { return t.number },
}

// urlParts are the variables url.NAME, of the URL as it was given, and
// urle.NAME, of the one that was fetched last.
var urlParts = map[string]func(*address) string{
	"fragment": func(u *address) string { return u.fragment },
	"host":     func(u *address) string { return u.host },
	"options":  func(*address) string { return "" },
	"password": func(u *address) string { return u.password },
	"path":     func(u *address) string { return u.path },
	"port":     func(u *address) string { return cmp.Or(u.port, u.realPort()) },
	"query":    func(u *address) string { return u.query },
	"scheme":   func(u *address) string { return u.scheme },
	"user":     func(u *address) string { return u.user },
	"zoneid":   func(u *address) string { return u.zone },
}

// optional makes an empty text an absent one.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func portNumber(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

func perSecond(n int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(n) / d.Seconds())
}

func (t *transfer) header(name string) string {
	if t.last == nil {
		return ""
	}
	return t.last.Header.Get(name)
}

// A status is printed with three digits.
type status int

func (t *transfer) status() any {
	if t.last == nil {
		return status(0)
	}
	return status(t.last.StatusCode)
}

func (t *transfer) httpVersion() string {
	switch {
	case t.last == nil:
		return "0"
	case t.last.ProtoMinor == 0:
		return "1"
	}
	return "1.1"
}

func (t *transfer) errorText() any {
	if t.err == nil {
		return nil
	}
	return t.err.Error()
}

func (t *transfer) effectiveMethod() string {
	if t.last == nil {
		return t.c.method(t)
	}
	return t.last.Request.Method
}

func (t *transfer) effectiveURL() any {
	if t.url == nil {
		return t.input
	}
	return t.url.String()
}

func (t *transfer) part(of func(*address) string) any {
	if t.url == nil {
		return nil
	}
	return optional(of(t.url))
}

func (t *transfer) redirectURL() any {
	location := t.header("Location")
	if location == "" || t.url == nil || t.last.StatusCode/100 != 3 {
		return nil
	}
	u, err := t.url.resolveReference(location)
	if err != nil {
		return nil
	}
	return u.String()
}

func (t *transfer) headerCount() int {
	if t.last == nil {
		return 0
	}
	return max(strings.Count(t.last.head, "\n")-2, 0)
}

func (t *transfer) certificateCount() int {
	if t.last == nil || t.last.conn.secure == nil {
		return 0
	}
	return len(t.last.conn.secure.PeerCertificates)
}

func (t *transfer) certificates() string {
	if t.certificateCount() == 0 {
		return ""
	}
	var b strings.Builder
	for _, c := range t.last.conn.secure.PeerCertificates {
		fmt.Fprintf(&b, "Subject:%s\nIssuer:%s\n", c.Subject, c.Issuer)
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.String()
}

// variable returns a variable of --write-out by name.
func (t *transfer) variable(name string) (any, bool) {
	if v, ok := writeVariables[name]; ok {
		return v(t), true
	}
	which, part, _ := strings.Cut(name, ".")
	of, ok := urlParts[part]
	if !ok || which != "url" && which != "urle" {
		return nil, false
	}
	u := t.url
	if which == "url" {
		var err error
		if u, err = parseURL(t.input, t.c.o.protoDefault, t.c.o.pathAsIs); err != nil {
			return nil, true
		}
	}
	if u == nil {
		return nil, true
	}
	return optional(of(u)), true
}

// format prints a variable as --write-out does.
func format(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Duration:
		return fmt.Sprintf("%d.%06d", v/time.Second, v%time.Second/time.Microsecond)
	case status:
		return fmt.Sprintf("%03d", int(v))
	}
	return fmt.Sprint(v)
}

// jsonFormat prints a variable as a JSON value.
func jsonFormat(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return format(v)
	case status:
		return strconv.Itoa(int(v))
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(data)
}

// allJSON is %{json}.
func (t *transfer) allJSON() string {
	names := slices.Collect(maps.Keys(writeVariables))
	for part := range urlParts {
		names = append(names, "url."+part, "urle."+part)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("{")
	for _, name := range names {
		v, _ := t.variable(name)
		fmt.Fprintf(&b, "%q:%s,", name, jsonFormat(v))
	}
	return b.String() + `"curl_version":"libcurl/` + version + ` Schannel zlib/1.3.1 WinIDN"}`
}

// headersJSON is %{header_json}: the headers of the last answer.
func (t *transfer) headersJSON() string {
	var names []string
	values := map[string][]string{}
	if t.last != nil {
		for line := range strings.Lines(t.last.head) {
			name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
			if !ok || strings.HasPrefix(line, "HTTP/") {
				continue
			}
			name = strings.ToLower(name)
			if values[name] == nil {
				names = append(names, name)
			}
			values[name] = append(values[name], strings.TrimSpace(value))
		}
	}
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = fmt.Sprintf("%q:%s", name, jsonFormat(values[name]))
	}
	return "{" + strings.Join(lines, ",\n") + "\n}"
}

// writeOut prints --write-out: src/tool_writeout.c, ourWriteOut.
func (t *transfer) writeOut() {
	var w io.Writer = t.c.g.out
	var opened *os.File
	defer func() {
		if opened != nil {
			_ = opened.Close() // curl does not check either
		}
	}()
	write := func(s string) { _, _ = io.WriteString(w, s) } // as printf
	for s := t.c.o.writeOut; s != ""; {
		next := strings.IndexAny(s, `%\`)
		switch {
		case next < 0:
			write(s)
			return
		case next > 0:
			write(s[:next])
			s = s[next:]
			continue
		case len(s) == 1:
			write(s)
			return
		case s[0] == '\\':
			if i := strings.IndexByte("rnt", s[1]); i >= 0 {
				write("\r\n\t"[i : i+1])
			} else {
				write(s[:2])
			}
			s = s[2:]
			continue
		}
		kind, rest, found := strings.Cut(s[1:], "{")
		argument, after, closed := strings.Cut(rest, "}")
		switch {
		case s[1] == '%':
			write("%")
			s = s[2:]
		case !found || kind != "" && kind != "header" && kind != "output":
			write(s[:2])
			s = s[2:]
		case !closed:
			write("%" + kind + "{")
			s = rest
		case kind == "header":
			if t.last != nil {
				write(t.last.Header.Get(argument))
			}
			s = after
		case kind == "output":
			if f := openOutput(argument); f != nil {
				if opened != nil {
					_ = opened.Close() // curl does not check either
				}
				opened, w = f, f
			}
			s = after
		default:
			s = after
			switch argument {
			case "onerror":
				if t.err == nil {
					return
				}
			case "stdout":
				w = t.c.g.out
			case "stderr":
				w = t.c.g.stderr()
			case "json":
				write(t.allJSON())
			case "header_json":
				write(t.headersJSON())
			default:
				v, ok := t.variable(argument)
				if !ok {
					_, _ = fmt.Fprintf(t.c.g.stderr(), "curl: unknown --write-out variable: '%s'\n", argument)
					continue
				}
				write(format(v))
			}
		}
	}
}

// openOutput is %output{name}, or %output{>>name} to append.
func openOutput(name string) *os.File {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if rest, ok := strings.CutPrefix(name, ">>"); ok {
		name, flags = rest, os.O_WRONLY|os.O_CREATE|os.O_APPEND
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		return nil
	}
	return f
}
