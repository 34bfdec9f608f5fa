// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package iis

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Log writes the W3C extended log of a site, one file per day in UTC:
// u_ex191231.log. Lines are flushed at once; IIS itself delays them by up to a
// minute, which no test wants.
type Log struct {
	dir string
	now func() time.Time

	mu   sync.Mutex
	file *os.File // guarded by mu
	day  string   // guarded by mu
}

// logFields are the fields that a fresh IIS logs.
const logFields = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) " +
	"cs(Referer) sc-status sc-substatus sc-win32-status time-taken"

// NewLog writes into a directory, which is made with the first line. A nil now
// is time.Now.
func NewLog(dir string, now func() time.Time) *Log {
	if now == nil {
		now = time.Now
	}
	return &Log{dir: dir, now: now}
}

// Close ends the current file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// write adds a line. The server goes on if the log cannot be written, as IIS
// does by default.
func (l *Log) write(r *http.Request, res result, took time.Duration) {
	now := l.now().UTC()
	line := logLine(r, res, took, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if day := now.Format("060102"); day != l.day || l.file == nil {
		f, err := l.open(day, now)
		if err != nil {
			return
		}
		if l.file != nil {
			_ = l.file.Close() // the day is over
		}
		l.file, l.day = f, day
	}
	_, _ = l.file.WriteString(line)
}

func (l *Log) open(day string, now time.Time) (*os.File, error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(l.dir, "u_ex"+day+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Date: %s\r\n"+
		"#Fields: %s\r\n", now.Format(time.DateTime), logFields)
	if _, err := f.Write(head.Bytes()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func logLine(r *http.Request, res result, took time.Duration, now time.Time) string {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	ip, port := "-", "-"
	if local != nil {
		ip, port, _ = net.SplitHostPort(local.String())
	}
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	return fmt.Sprintf("%s %s %s %s %s %s - %s %s %s %d %d %d %d\r\n", now.Format(time.DateTime), field(ip),
		field(r.Method), field(r.URL.Path), field(r.URL.RawQuery), field(port), field(client), field(r.UserAgent()),
		field(r.Referer()), res.status, res.sub, res.win32, took.Milliseconds())
}

// field replaces text that would break the line: blanks by "+", an empty string by "-".
func field(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '+'
		case r < ' ' || r == 0x7f:
			return '?'
		}
		return r
	}, s)
}
