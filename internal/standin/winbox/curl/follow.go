// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// jump is the state of a transfer that redirects change.
type jump struct {
	url     *address
	method  string
	body    bool
	origin  *address // that credentials are for
	auth    string   // Authorization of the next request
	referer string
	digest  bool // a digest challenge was answered
}

// expectFrom is the size of a body from which on curl asks before it sends it:
// lib/http.h, EXPECT_100_THRESHOLD.
const expectFrom = 1 << 20

// follow sends requests until an answer is the last one.
func (t *transfer) follow(ctx context.Context) error {
	o := t.c.o
	j := &jump{url: t.url, origin: t.url, referer: o.referer, body: true}
	j.method = t.c.method(t)
	for n := 0; ; {
		a, err := t.once(ctx, j)
		if err != nil {
			return err
		}
		t.last = a
		for _, h := range a.Header.Values("Set-Cookie") {
			if o.useCookies || o.cookieJar != "" {
				t.c.jar.set(j.url, h)
			}
		}
		if t.challenged(a, j) {
			t.drop(a)
			continue
		}
		location := a.Header.Get("Location")
		if !o.follow || location == "" || a.StatusCode/100 != 3 {
			return t.finish(a, j.url)
		}
		next, err := j.url.resolveReference(location)
		if err != nil {
			_ = a.conn.Close() // it is not used again
			return fail(exitMalformed, "The redirect target URL could not be parsed: %s",
				strings.TrimPrefix(err.Error(), "URL rejected: "))
		}
		if n++; n > o.maxRedirs {
			_ = a.conn.Close() // it is not used again
			return fail(exitTooManyJumps, "Maximum (%d) redirects followed", o.maxRedirs)
		}
		t.drop(a)
		if err := checkProtocol(next, o.protoRedir); err != nil {
			return err
		}
		t.redirect(a, j, next)
	}
}

// redirect prepares the request to where an answer points.
func (t *transfer) redirect(a *answer, j *jump, next *address) {
	o := t.c.o
	t.stats.redirects++
	t.stats.redirect = time.Since(t.began)
	t.infof("Issue another request to this URL: '%s'", next)
	if o.autoReferer {
		previous := *j.url
		previous.hasUser, previous.hasFragment = false, false
		j.referer = previous.String()
	}
	post := j.method == http.MethodPost
	becomesGet := false
	switch a.StatusCode {
	case http.StatusMovedPermanently:
		becomesGet = post && !o.post301
	case http.StatusFound:
		becomesGet = post && !o.post302
	case http.StatusSeeOther:
		becomesGet = j.method != http.MethodHead && (!post || !o.post303)
	}
	if becomesGet && o.method == "" || becomesGet && j.body && o.method != "" {
		j.body = false
		j.method = cmp.Or(o.method, http.MethodGet)
	}
	j.url, j.auth, j.digest = next, "", false
	t.url = next
}

// drop reads a short body that is not wanted, so that the connection can be
// used again.
func (t *transfer) drop(a *answer) {
	n, err := io.Copy(io.Discard, io.LimitReader(a.Body, 1<<20))
	t.c.done(a, err == nil && n < 1<<20)
}

// finish takes the last answer.
func (t *transfer) finish(a *answer, u *address) error {
	o := t.c.o
	whole := false
	defer func() { t.c.done(a, whole) }()
	t.url = u
	if t.err != nil {
		return t.err
	}
	if o.fail && a.StatusCode >= 400 {
		return fail(exitHTTPError, "The requested URL returned error: %d", a.StatusCode)
	}
	if err := t.named(a); err != nil {
		return err
	}
	if t.sink.offset > 0 && j206(a) == "" && a.Request.Method == http.MethodGet && t.upload == "" {
		switch a.StatusCode {
		case http.StatusRequestedRangeNotSatisfiable:
			whole = true
			_, err := io.Copy(io.Discard, a.Body)
			return err // curl takes it for a file that is complete
		case http.StatusOK:
			return fail(exitRange, "HTTP server does not seem to support byte ranges. Cannot resume.")
		}
	}
	if o.timeCond != 0 && t.conditionUnmet(a) {
		t.unmet = true
		return nil
	}
	if err := t.save(a); err != nil {
		return err
	}
	whole = true
	return t.err
}

// j206 returns the range that an answer holds.
func j206(a *answer) string {
	if a.StatusCode != http.StatusPartialContent {
		return ""
	}
	return cmp.Or(a.Header.Get("Content-Range"), "bytes")
}

// named uses what the headers say about the file and saves the ETag.
func (t *transfer) named(a *answer) error {
	o := t.c.o
	if a.StatusCode/100 != 2 && a.StatusCode/100 != 3 {
		return nil
	}
	if o.remoteHeaderName && t.node.remoteName && !o.include {
		t.sink.takeName(a.Header.Get("Content-Disposition"))
	}
	etag := a.Header.Get("ETag")
	if o.etagSave == "" {
		return nil
	}
	if o.etagSave == "-" {
		_, err := io.WriteString(t.c.g.out, etag+"\n")
		return err
	}
	if err := o.makeDirs(t.c.g, o.etagSave); err != nil {
		return err
	}
	content := []byte(nil)
	if etag != "" {
		content = []byte(etag + "\n")
	}
	if content == nil && fileExists(o.etagSave) {
		return nil
	}
	if err := os.WriteFile(o.etagSave, content, 0o666); err != nil {
		t.c.g.warnf("Failed creating file for saving etags: %q. Skip this transfer", o.etagSave)
	}
	return nil
}

// conditionUnmet reports whether --time-cond refuses an answer that the server
// sent nevertheless: lib/http.c.
func (t *transfer) conditionUnmet(a *answer) bool {
	if a.StatusCode == http.StatusNotModified {
		return true
	}
	modified, err := http.ParseTime(a.Header.Get("Last-Modified"))
	if err != nil || t.c.o.byteRange != "" {
		return false
	}
	if t.c.o.timeCond == '-' {
		return modified.After(t.c.o.condTime)
	}
	return t.c.o.timeCond == '+' && !modified.After(t.c.o.condTime)
}

// method is the first request's.
func (c *client) method(t *transfer) string {
	switch {
	case c.o.method != "":
		return c.o.method
	case c.o.head:
		return http.MethodHead
	case t.node.hasUpload && !t.node.emptyBody:
		return http.MethodPut
	case c.o.hasForm, c.o.hasData && !c.o.get:
		return http.MethodPost
	}
	return http.MethodGet
}

// once sends one request.
func (t *transfer) once(ctx context.Context, j *jump) (*answer, error) {
	c, o := t.c, t.c.o
	t.headers = t.ownHeaders(j)
	r := &request{method: j.method, url: j.url}
	trusted := o.keepAuth || j.url.sameOrigin(j.origin)
	r.headers = append(r.headers, t.proxyHeaders(j)...)
	if auth := t.authorization(j, trusted); auth != "" {
		r.headers = append(r.headers, "Authorization: "+auth)
	}
	switch {
	case o.byteRange != "" && (j.method == http.MethodGet || o.head):
		r.headers = append(r.headers, "Range: bytes="+o.byteRange)
	case t.sink.offset > 0 && t.upload == "" && !o.hasData:
		r.headers = append(r.headers, "Range: bytes="+strconv.FormatInt(t.sink.offset, 10)+"-")
	}
	if agent := c.agentHeader(); agent != "" {
		r.headers = append(r.headers, strings.TrimSuffix(agent, "\r\n"))
	}
	r.headers = append(r.headers, "Accept: */*")
	if o.compressed {
		r.headers = append(r.headers, "Accept-Encoding: deflate, gzip")
	}
	if j.referer != "" {
		r.headers = append(r.headers, "Referer: "+j.referer)
	}
	if r.whole || c.plainProxy(j.url) {
		r.headers = append(r.headers, "Proxy-Connection: Keep-Alive")
	}
	if cookies := t.cookies(j, trusted); cookies != "" {
		r.headers = append(r.headers, "Cookie: "+cookies)
	}
	r.headers = append(r.headers, t.conditions()...)
	closer, err := t.setBody(r, j)
	if err != nil {
		return nil, err
	}
	if closer != nil {
		defer closer.Close() // only read
	}
	return c.exchange(ctx, t, r)
}

func (c *client) plainProxy(u *address) bool {
	p, err := c.proxyFor(u)
	return err == nil && p != nil && strings.HasPrefix(p.scheme, "http") && u.scheme == "http" && !c.o.proxyTunnel
}

// proxyHeaders are for a proxy that gets the request itself.
func (t *transfer) proxyHeaders(j *jump) []string {
	if !t.c.plainProxy(j.url) {
		return nil
	}
	t.stats.proxyUsed = true
	p, err := t.c.proxyFor(j.url)
	if err != nil || !p.hasUser {
		return slices.Clone(t.c.o.proxyHeaders)
	}
	return append([]string{"Proxy-Authorization: " + basicAuth(p.user, p.password)}, t.c.o.proxyHeaders...)
}

// ownHeaders are those of --header; another host gets no credentials.
func (t *transfer) ownHeaders(j *jump) []string {
	own := slices.Clone(t.c.o.headers)
	if t.c.o.etagCompare != "" {
		data, err := os.ReadFile(t.c.o.etagCompare)
		etag := strings.TrimSpace(string(data))
		if err != nil {
			t.c.g.warnf("Failed to open %s: %s", t.c.o.etagCompare, strerror(err))
		}
		own = append(own, "If-None-Match: "+cmp.Or(etag, `""`))
	}
	if t.c.o.isJSON {
		for _, h := range []string{"Content-Type: application/json", "Accept: application/json"} {
			name, _, _ := strings.Cut(h, ":")
			if _, ok := customHeader(own, name); !ok {
				own = append(own, h)
			}
		}
	}
	if t.c.o.keepAuth || j.url.sameOrigin(j.origin) {
		return own
	}
	return slices.DeleteFunc(own, func(h string) bool {
		name, _, _ := strings.Cut(h, ":")
		name = strings.ToLower(strings.TrimSpace(name))
		return name == "authorization" || name == "cookie" ||
			name == "host" && !strings.EqualFold(j.url.host, j.origin.host)
	})
}

func (t *transfer) cookies(j *jump, trusted bool) string {
	given := ""
	if trusted {
		given = strings.Join(t.c.o.cookies, ";")
	}
	kept := t.c.jar.header(j.url)
	if kept != "" && given != "" {
		kept += "; "
	}
	return kept + given
}

// conditions are the headers of --time-cond.
func (t *transfer) conditions() []string {
	value := t.c.o.condTime.UTC().Format(http.TimeFormat)
	switch t.c.o.timeCond {
	case '+':
		return []string{"If-Modified-Since: " + value}
	case '-':
		return []string{"If-Unmodified-Since: " + value}
	case '=':
		return []string{"Last-Modified: " + value}
	}
	return nil
}

// login returns the account for a URL.
func (t *transfer) login(u *address) (user, password string, ok bool) {
	o := t.c.o
	if u.hasUser {
		user, password, ok = u.user, u.password, true
	} else if o.user != "" {
		user, password, _ = strings.Cut(o.user, ":")
		ok = true
	}
	if (o.netrc || o.netrcOptional || o.netrcFile != "") && (!ok || o.netrc && password == "") {
		if u2, p2, found := t.c.netrcLogin(u.host, user); found {
			return u2, p2, true
		}
	}
	return user, password, ok
}

// authorization is the value of the header of that name, if it can be known
// before the server asks.
func (t *transfer) authorization(j *jump, trusted bool) string {
	if j.auth != "" {
		return j.auth
	}
	o := t.c.o
	if !trusted && !j.url.hasUser {
		return ""
	}
	if o.bearer != "" {
		return "Bearer " + o.bearer
	}
	user, password, ok := t.login(j.url)
	if !ok || o.auth != 0 && o.auth != authBasic {
		return ""
	}
	return basicAuth(user, password)
}

// challenged answers a server that asks who is there, and reports whether the
// request is to be sent again.
func (t *transfer) challenged(a *answer, j *jump) bool {
	o := t.c.o
	if a.StatusCode != http.StatusUnauthorized || o.auth&authDigest == 0 || j.digest || j.auth != "" {
		return false
	}
	user, password, ok := t.login(j.url)
	if !ok || !o.keepAuth && !j.url.sameOrigin(j.origin) {
		return false
	}
	headers := a.Header.Values("Www-Authenticate")
	if params, found := challenge(headers, "Digest"); found {
		auth, known := digestAuth(params, user, password, j.method, j.url.target())
		j.auth, j.digest = auth, true
		return known
	}
	if _, found := challenge(headers, "Basic"); found && o.auth&authBasic != 0 {
		j.auth = basicAuth(user, password)
		return true
	}
	return false
}

// setBody gives a request its body and the headers that describe it.
func (t *transfer) setBody(r *request, j *jump) (io.Closer, error) {
	c, o := t.c, t.c.o
	if !j.body {
		return nil, nil
	}
	// The first request of a digest exchange only asks for the challenge.
	asks := o.auth == authDigest && j.auth == "" && (o.user != "" || j.url.hasUser)
	var contentType string
	var closer io.Closer
	switch {
	case o.hasForm:
		r.body, r.length = bytes.NewReader(c.form.body), int64(len(c.form.body))
		contentType = c.form.contentType
	case o.hasData && !o.get:
		r.body, r.length = bytes.NewReader(o.data), int64(len(o.data))
		contentType = "application/x-www-form-urlencoded"
	case t.upload == "-" || t.upload == ".":
		if o.http10 {
			return nil, fail(exitUpload, "Chunky upload is not supported by HTTP 1.0")
		}
		r.body, r.length, r.expect = c.g.env.Stdin, -1, true
	case t.upload != "":
		f, err := os.Open(t.upload)
		if err != nil {
			return nil, t.noUpload()
		}
		closer = f
		r.body, r.length = f, -1
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			r.length = info.Size()
		}
		if err := t.resumeUpload(r, f); err != nil {
			_ = f.Close() // only read
			return nil, err
		}
	default:
		return nil, nil
	}
	if value, ok := customHeader(t.headers, "Transfer-Encoding"); ok && strings.EqualFold(value, "chunked") {
		r.length = -1
	}
	if asks {
		r.body, r.length = strings.NewReader(""), 0
	}
	r.expect = (r.expect || r.length > expectFrom) && !o.http10
	if value, ok := customHeader(t.headers, "Expect"); ok {
		r.expect = false
		_ = value // it is sent as it was given
	}
	r.contentType = contentType
	return closer, nil
}

// resumeUpload continues an upload where --continue-at says.
func (t *transfer) resumeUpload(r *request, f *os.File) error {
	from := t.c.o.resumeFrom
	if from == 0 || r.length < 0 {
		return nil
	}
	total := r.length
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return fail(exitRead, "Could not seek stream")
	}
	if r.length -= from; r.length <= 0 {
		return fail(exitPartial, "File already completely uploaded")
	}
	r.headers = append(r.headers, "Content-Range: bytes "+strconv.FormatInt(from, 10)+"-"+
		strconv.FormatInt(total-1, 10)+"/"+strconv.FormatInt(total, 10))
	return nil
}
