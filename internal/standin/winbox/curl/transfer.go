// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stats are the figures of --write-out.
type stats struct {
	nameLookup, connect, appConnect, preTransfer, postTransfer, startTransfer, redirect, total time.Duration
	connects, redirects, retries                                                               int
	headerSize, requestSize, downloaded, uploaded                                              int64
	localIP, localPort, remoteIP, remotePort                                                   string
}

// transfer is one URL of the command line.
type transfer struct {
	*client
	number int    // of the URL, from 0
	input  string // the URL as given
	upload string
	url    *url.URL // of the last request; empty if the input is not a URL
	sink   *sink
	began  time.Time
	stats  stats
	last   *response // without a status if no response arrived
	err    error
}

// infof prints a line of --verbose.
func (t *transfer) infof(format string, args ...any) {
	if t.opts.verbose {
		_, _ = fmt.Fprintf(t.env.Stderr, "* "+format+"\n", args...)
	}
}

// showHead prints a head as --verbose does.
func (t *transfer) showHead(prefix, head string) {
	for line := range strings.Lines(head) {
		if t.opts.verbose {
			_, _ = io.WriteString(t.env.Stderr, prefix+line)
		}
	}
}

// received counts and shows the head of a response.
func (t *transfer) received(head string) error {
	t.stats.headerSize += int64(len(head))
	t.showHead("< ", head)
	if !t.opts.include {
		return nil
	}
	_, err := io.WriteString(t.sink, head)
	return err
}

// run performs all transfers and returns the exit code of the last one.
func (c *client) run(ctx context.Context) int {
	if err := c.checkMethod(); err != nil {
		return c.report(err)
	}
	if len(c.opts.outputs) > len(c.opts.urls) {
		c.warnf("Got more output options than URLs")
	}
	code := 0
	for i, input := range c.opts.urls {
		t := &transfer{client: c, number: i, input: input, url: &url.URL{}, sink: &sink{c: c}}
		if i < len(c.opts.uploads) {
			t.upload = c.opts.uploads[i]
		}
		var to target
		if i < len(c.opts.outputs) {
			to = c.opts.outputs[i]
		}
		code = t.perform(ctx, to)
	}
	return code
}

// checkMethod refuses two requests at once.
func (c *client) checkMethod() error {
	var chosen []string
	for _, m := range []struct {
		chosen bool
		name   string
	}{
		{c.opts.head, "HEAD (-I, --head)"}, {c.opts.parts != nil, "multipart formpost (-F, --form)"},
		{c.opts.hasData && !c.opts.get, "POST (-d, --data)"}, {c.opts.uploads != nil, "PUT (-T, --upload-file)"},
	} {
		if m.chosen {
			chosen = append(chosen, m.name)
		}
	}
	if len(chosen) < 2 {
		return nil
	}
	c.warnf("You can only select one HTTP request method! You asked for both %s and %s.", chosen[1], chosen[0])
	return &failure{code: exitFailedInit}
}

// perform runs a transfer with its retries and returns the exit code.
func (t *transfer) perform(ctx context.Context, to target) int {
	t.begin()
	err := t.prepare(to)
	if err == nil {
		err = t.sink.close(t.retry(ctx))
	}
	code := t.report(err)
	t.err = err
	t.stats.total = time.Since(t.began)
	t.writeOutput()
	return code
}

func (t *transfer) begin() {
	t.began = time.Now()
	t.last = &response{Response: &http.Response{Request: &http.Request{Method: t.method()}}}
}

// prepare reads the URL and opens the output.
func (t *transfer) prepare(to target) error {
	u, err := parseURL(t.input, t.opts.globOff)
	if err != nil {
		return err
	}
	if t.opts.get && t.opts.hasData {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+string(t.opts.data), "&")
	}
	if t.upload != "" && t.upload != "-" && strings.HasSuffix(u.Path, "/") {
		u = u.JoinPath(t.upload[strings.LastIndexAny(t.upload, `\/`)+1:])
	}
	t.url = u
	t.sink, err = t.newSink(to, u)
	return err
}

// retry performs a transfer until it succeeds or --retry is used up.
func (t *transfer) retry(ctx context.Context) error {
	o := t.opts
	first, pause := t.began, cmp.Or(o.retryDelay, time.Second)
	start := t.url
	for left := o.retries; ; left-- {
		err := t.attempt(ctx)
		reason := t.retryReason(err)
		if left == 0 || reason == "" || o.retryMaxTime > 0 && time.Since(first) >= o.retryMaxTime {
			return err
		}
		t.report(err)
		wait := max(pause, t.retryAfter())
		t.warnf("Problem %s. Will retry in %s. %s left.", reason, plural(int(wait.Seconds()), "second", "seconds"),
			plural(left, "retry", "retries"))
		if o.retryDelay == 0 {
			pause = min(pause*2, 10*time.Minute)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		if err := t.sink.again(); err != nil {
			return err
		}
		t.url, t.stats = start, stats{retries: t.stats.retries + 1}
		t.begin()
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// retryReason returns why to try again, or an empty text: src/tool_operate.c,
// post_per_transfer.
func (t *transfer) retryReason(err error) string {
	f, _ := errors.AsType[*failure](err)
	switch code := codeOf(err); {
	case code == exitTimeout, code == exitNoHost:
		return ": timeout"
	case t.opts.retryRefused && f != nil && f.refused:
		return ": connection refused"
	case (code == 0 || code == exitHTTPError) &&
		slices.Contains([]int{408, 429, 500, 502, 503, 504}, t.last.StatusCode):
		return ": HTTP error"
	case err != nil && t.opts.retryAll:
		return "(retrying all errors)"
	}
	return ""
}

// retryAfter returns the pause that the server wants.
func (t *transfer) retryAfter() time.Duration {
	value := t.last.Header.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return time.Until(at).Round(time.Second)
	}
	return 0
}

// attempt performs a transfer once, within --max-time.
func (t *transfer) attempt(ctx context.Context) error {
	if t.opts.maxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.opts.maxTime)
		defer cancel()
	}
	err := t.follow(ctx)
	if err == nil || ctx.Err() == nil || codeOf(err) == exitTimeout {
		return err
	}
	amount := strconv.FormatInt(t.stats.downloaded, 10)
	if t.last.ContentLength > 0 {
		amount += fmt.Sprintf(" out of %d", t.last.ContentLength)
	}
	return fail(exitTimeout, "Operation timed out after %d milliseconds with %s bytes received",
		time.Since(t.began).Milliseconds(), amount)
}

// follow sends requests until a response is the last one.
func (t *transfer) follow(ctx context.Context) error {
	origin := t.url
	r := &request{method: t.method(), url: t.url, hasBody: true}
	for {
		r.trusted = sameOrigin(r.url, origin)
		a, err := t.exchange(ctx, r)
		if err != nil {
			return err
		}
		t.last, t.url = a, r.url
		location := a.Header.Get("Location")
		if !t.opts.follow || location == "" || a.StatusCode/100 != 3 {
			defer a.close()
			return t.finish(a)
		}
		a.close()
		if t.stats.redirects++; t.stats.redirects > t.opts.maxRedirs {
			return fail(exitTooManyJumps, "Maximum (%d) redirects followed", t.opts.maxRedirs)
		}
		if err := t.redirect(r, a.StatusCode, location); err != nil {
			return err
		}
	}
}

// method returns the method of the first request.
func (t *transfer) method() string {
	switch {
	case t.opts.method != "":
		return t.opts.method
	case t.opts.head:
		return http.MethodHead
	case t.upload != "":
		return http.MethodPut
	case t.opts.parts != nil, t.opts.hasData && !t.opts.get:
		return http.MethodPost
	}
	return http.MethodGet
}

// redirect changes a request to follow a redirect.
func (t *transfer) redirect(r *request, status int, location string) error {
	reference, err := url.Parse(strings.ReplaceAll(strings.TrimSpace(location), " ", "%20"))
	if err != nil {
		return fail(exitMalformed, "The redirect target URL could not be parsed: %v", err)
	}
	if r.url, err = parseURL(r.url.ResolveReference(reference).String(), true); err != nil {
		return err
	}
	t.stats.redirect = time.Since(t.began)
	t.infof("Issue another request to this URL: '%s'", r.url)
	post := r.method == http.MethodPost
	if status == http.StatusSeeOther && r.method != http.MethodHead ||
		post && (status == http.StatusMovedPermanently || status == http.StatusFound) {
		r.hasBody, r.method = false, cmp.Or(t.opts.method, http.MethodGet)
	}
	return nil
}

// finish takes the last response.
func (t *transfer) finish(a *response) error {
	failed := a.StatusCode >= 400
	if !failed || !t.opts.fail {
		if err := t.save(a); err != nil || !failed || !t.opts.failBody {
			return err
		}
	}
	return fail(exitHTTPError, "The requested URL returned error: %d", a.StatusCode)
}

// save writes a response's body.
func (t *transfer) save(a *response) error {
	n, err := io.Copy(t.sink, a.Body)
	t.stats.downloaded = n
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF) && a.ContentLength >= 0:
		return fail(exitPartial, "end of response with %d bytes missing", a.ContentLength-t.stats.downloaded)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fail(exitPartial, "transfer closed with outstanding read data remaining")
	case isReset(err):
		return fail(exitReceive, "Recv failure: Connection was reset")
	}
	return err
}
