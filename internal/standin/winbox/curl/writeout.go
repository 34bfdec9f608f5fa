// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
)

// writeVariables are the variables of --write-out, each a string,
// number or time.Duration: curl.se/docs/manpage.html#-w.
var writeVariables = map[string]func(t *transfer) any{
	"content_type":       func(t *transfer) any { return t.last.Header.Get("Content-Type") },
	"errormsg":           (*transfer).errorText,
	"exitcode":           func(t *transfer) any { return codeOf(t.err) },
	"filename_effective": func(t *transfer) any { return t.sink.name },
	"http_code":          func(t *transfer) any { return fmt.Sprintf("%03d", t.last.StatusCode) },
	"http_version":       func(t *transfer) any { return httpVersions[t.last.Proto] },
	"local_ip":           func(t *transfer) any { return t.stats.localIP },
	"local_port":         func(t *transfer) any { return t.stats.localPort },
	"method":             func(t *transfer) any { return t.last.Request.Method },
	"num_connects":       func(t *transfer) any { return t.stats.connects },
	"num_redirects":      func(t *transfer) any { return t.stats.redirects },
	"num_retries":        func(t *transfer) any { return t.stats.retries },
	"redirect_url":       (*transfer).redirectURL,
	"remote_ip":          func(t *transfer) any { return t.stats.remoteIP },
	"remote_port":        func(t *transfer) any { return t.stats.remotePort },
	"response_code":      func(t *transfer) any { return fmt.Sprintf("%03d", t.last.StatusCode) },
	"scheme":             func(t *transfer) any { return t.url.Scheme },
	"size_download":      func(t *transfer) any { return t.stats.downloaded },
	"size_header":        func(t *transfer) any { return t.stats.headerSize },
	"size_request":       func(t *transfer) any { return t.stats.requestSize + t.stats.uploaded },
	"size_upload":        func(t *transfer) any { return t.stats.uploaded },
	"speed_download":     func(t *transfer) any { return perSecond(t.stats.downloaded, t.stats.total) },
	"speed_upload":       func(t *transfer) any { return perSecond(t.stats.uploaded, t.stats.total) },
	"ssl_verify_result":  func(*transfer) any { return 0 },
	"time_appconnect":    func(t *transfer) any { return t.stats.appConnect },
	"time_connect":       func(t *transfer) any { return t.stats.connect },
	"time_namelookup":    func(t *transfer) any { return t.stats.nameLookup },
	"time_posttransfer":  func(t *transfer) any { return t.stats.postTransfer },
	"time_pretransfer":   func(t *transfer) any { return t.stats.preTransfer },
	"time_redirect":      func(t *transfer) any { return t.stats.redirect },
	"time_starttransfer": func(t *transfer) any { return t.stats.startTransfer },
	"time_total":         func(t *transfer) any { return t.stats.total },
	"url":                func(t *transfer) any { return t.input },
	"url_effective":      func(t *transfer) any { return cmp.Or(t.url.String(), t.input) },
	"urlnum":             func(t *transfer) any { return t.number },
}

var httpVersions = map[string]string{"": "0", "HTTP/1.0": "1", "HTTP/1.1": "1.1"}

func perSecond(n int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(n) / d.Seconds())
}

func (t *transfer) errorText() any {
	if t.err == nil {
		return ""
	}
	return t.err.Error()
}

func (t *transfer) redirectURL() any {
	location := t.last.Header.Get("Location")
	if location == "" || t.last.StatusCode/100 != 3 {
		return ""
	}
	u, err := t.url.Parse(location)
	if err != nil {
		return ""
	}
	return u.String()
}

// writeOutput prints --write-out: src/tool_writeout.c, ourWriteOut.
func (t *transfer) writeOutput() {
	var w io.Writer = t.out
	for s := t.opts.writeOut; s != ""; {
		i := strings.IndexAny(s, `%\`)
		if i < 0 || i+1 == len(s) {
			_, _ = io.WriteString(w, s) // as printf
			return
		}
		_, _ = io.WriteString(w, s[:i]) // as printf
		printed, name, rest := directive(s[i:])
		s = rest
		switch name {
		case "":
		case "onerror":
			if t.err == nil {
				return
			}
		case "stdout":
			w = t.out
		case "stderr":
			w = t.env.Stderr
		default:
			printed = t.variable(name)
		}
		_, _ = io.WriteString(w, printed) // as printf
	}
}

// directive reads an escape, or the name of a variable, from the front of a
// format. The name of a response's header begins with a colon.
func directive(s string) (printed, name, rest string) {
	kind, after, found := strings.Cut(s[1:], "{")
	argument, more, closed := strings.Cut(after, "}")
	switch i := strings.IndexByte("rnt", s[1]); {
	case s[0] == '\\' && i >= 0:
		return "\r\n\t"[i : i+1], "", s[2:]
	case s[0] == '%' && s[1] == '%':
		return "%", "", s[2:]
	case s[0] == '\\' || !found || kind != "" && kind != "header":
		return s[:2], "", s[2:]
	case !closed:
		return "%" + kind + "{", "", after
	case kind == "header":
		return "", ":" + argument, more
	}
	return "", argument, more
}

// variable returns the text of a variable or of a response's header.
func (t *transfer) variable(name string) string {
	if header, ok := strings.CutPrefix(name, ":"); ok {
		return t.last.Header.Get(header)
	}
	value, ok := writeVariables[name]
	if !ok {
		_, _ = fmt.Fprintf(t.env.Stderr, "curl: unknown --write-out variable: '%s'\n", name)
		return ""
	}
	v := value(t)
	if d, ok := v.(time.Duration); ok {
		return fmt.Sprintf("%d.%06d", d/time.Second, d%time.Second/time.Microsecond)
	}
	return fmt.Sprint(v)
}
