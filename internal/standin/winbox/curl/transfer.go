// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bufio"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client performs the transfers of one operation.
type client struct {
	g    *global
	o    *operation
	jar  jar
	idle map[string]*conn
	form struct {
		body        []byte
		contentType string
	}
	headerFileMade bool
}

func (g *global) newClient(o *operation) *client {
	return &client{g: g, o: o, idle: map[string]*conn{}}
}

// stats are the figures of --write-out.
type stats struct {
	nameLookup, connect, appConnect, preTransfer, postTransfer, startTransfer, redirect, total time.Duration
	connects, redirects, retries, connectCode                                                  int
	headerSize, requestSize, downloaded, uploaded                                              int64
	localIP, localPort, remoteIP, remotePort                                                   string
	proxyUsed                                                                                  bool
}

func (s *stats) connected(k net.Conn, after time.Duration) {
	s.connect = after
	s.remoteIP, s.remotePort, _ = net.SplitHostPort(k.RemoteAddr().String())
	s.localIP, s.localPort, _ = net.SplitHostPort(k.LocalAddr().String())
}

func (s *stats) firstByte(after time.Duration) {
	if s.startTransfer == 0 {
		s.startTransfer = after
	}
}

// transfer is one URL on its way.
type transfer struct {
	c       *client
	node    *node
	number  int // of the URL, from 0
	input   string
	upload  string
	url     *address
	sink    *sink
	dump    io.Writer // --dump-header
	headers []string
	began   time.Time
	stats   stats
	last    *answer
	unmet   bool // --time-cond
	err     error
}

// infof prints a line of --verbose.
func (t *transfer) infof(format string, args ...any) {
	if t.c.g.verbose {
		_, _ = fmt.Fprintf(t.c.g.stderr(), "* "+format+"\n", args...)
	}
}

// sent and received keep count, and show heads as --verbose does.
func (t *transfer) sent(head string) {
	t.stats.requestSize += int64(len(head))
	t.verbose("> ", head)
}

func (t *transfer) received(head string, show bool) {
	t.stats.headerSize += int64(len(head))
	t.verbose("< ", head)
	if !show {
		return
	}
	if t.dump != nil {
		_, _ = io.WriteString(t.dump, head) // curl ignores it too
	}
	if t.c.o.include {
		if _, err := io.WriteString(t.sink, head); err != nil && t.err == nil {
			t.err = err
		}
	}
}

func (t *transfer) verbose(prefix, head string) {
	if !t.c.g.verbose {
		return
	}
	for line := range strings.Lines(head) {
		_, _ = io.WriteString(t.c.g.stderr(), prefix+line)
	}
}

// run performs all transfers and returns the exit code: the last one's, as
// curl's, or with --parallel the first failure's.
func (c *client) run(ctx context.Context) int {
	if err := c.prepare(); err != nil {
		return c.report(err)
	}
	transfers, err := c.transfers()
	if err != nil {
		return c.report(err)
	}
	code := 0
	if c.g.parallel {
		code = c.runParallel(ctx, transfers)
	} else {
		for i, t := range transfers {
			if i > 0 && !sleep(ctx, c.g.interval-time.Since(transfers[i-1].began)) {
				break
			}
			code = t.perform(ctx)
			if code != 0 && c.g.failEarly {
				break
			}
		}
	}
	for _, k := range c.idle {
		_ = k.Close() // nothing is under way
	}
	if c.o.cookieJar != "" {
		c.jar.save(c.g, c.o.cookieJar)
	}
	return code
}

func (c *client) runParallel(ctx context.Context, transfers []*transfer) int {
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(min(cmp.Or(c.g.parallelMax, 50), 300), 1))
	codes := make([]int, len(transfers))
	for i, t := range transfers {
		slots <- struct{}{}
		wg.Go(func() {
			codes[i] = t.perform(ctx)
			<-slots
		})
	}
	wg.Wait()
	i := slices.IndexFunc(codes, func(code int) bool { return code != 0 })
	if i < 0 {
		return 0
	}
	return codes[i]
}

// prepare checks what concerns all transfers.
func (c *client) prepare() error {
	o := c.o
	uploads := slices.ContainsFunc(o.nodes, func(n *node) bool { return n.hasUpload && !n.emptyBody })
	var methods []string
	for _, m := range []struct {
		asked bool
		name  string
	}{
		{o.head, "HEAD (-I, --head)"}, {o.hasForm, "multipart formpost (-F, --form)"},
		{o.hasData && !o.get, "POST (-d, --data)"}, {uploads, "PUT (-T, --upload-file)"},
	} {
		if m.asked {
			methods = append(methods, m.name)
		}
	}
	if len(methods) > 1 {
		c.g.warnf("You can only select one HTTP request method! You asked for both %s and %s.", methods[1], methods[0])
		return &failure{code: exitFailedInit, quiet: true}
	}
	if o.hasForm {
		body, contentType, err := multipartBody(o.parts, o.formEscape)
		if err != nil {
			return fail(exitFailedInit, "%v", err)
		}
		c.form.body, c.form.contentType = body, contentType
	}
	for _, name := range o.cookieFiles {
		if name == "" {
			continue
		}
		if data, err := c.g.read(name); err == nil {
			c.jar.load(data, o.junkSession)
		}
	}
	return nil
}

// transfers expands the URLs and uploads of all nodes.
func (c *client) transfers() ([]*transfer, error) {
	var all []*transfer
	for _, n := range c.o.nodes {
		if !n.hasURL {
			c.g.warnf("Got more output options than URLs")
			continue
		}
		urls, uploads := []match{{url: n.url}}, []match{{url: n.upload}}
		if !c.o.globOff {
			var err error
			if urls, err = glob(n.url); err != nil {
				return nil, c.globFailure(n.url, err)
			}
			if n.upload != "" {
				if uploads, err = glob(n.upload); err != nil {
					return nil, c.globFailure(n.upload, err)
				}
			}
		}
		for _, up := range uploads {
			for _, m := range urls {
				t := &transfer{c: c, node: n, number: len(all), input: m.url, upload: up.url}
				t.sink = &sink{g: c.g, o: c.o}
				t.err = t.prepare(m)
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// globFailure shows a mistake in a pattern with its place: src/tool_urlglob.c.
func (c *client) globFailure(pattern string, err error) error {
	g, ok := errors.AsType[*globError](err)
	if !ok || g.pos == 0 || len(pattern) >= 512 {
		return fail(exitMalformed, "%v", err)
	}
	return fail(exitMalformed, "%s in URL position %d:\n%s\n%s^", g.what, g.pos, pattern, strings.Repeat(" ", g.pos-1))
}

// prepare finds out where a transfer leads from and to.
func (t *transfer) prepare(m match) error {
	o := t.c.o
	u, err := parseURL(m.url, o.protoDefault, o.pathAsIs)
	if err != nil {
		return err
	}
	t.url = u
	query := o.urlQuery
	if o.get && o.hasData {
		query = string(o.data)
	}
	if query != "" {
		u.query = strings.TrimPrefix(u.query+"&"+query, "&")
		u.hasQuery = true
	}
	if t.upload != "" && t.upload != "-" && t.upload != "." && strings.HasSuffix(u.path, "/") {
		u.path += escape(baseName(t.upload), "%20")
	}
	if o.noUserInURL && u.hasUser {
		return fail(67, "URL rejected: Credentials was passed in the URL when prohibited")
	}
	return t.sink.setName(t.node, u, m)
}

// report prints a failure, and returns its exit code.
func (c *client) report(err error) int {
	code := codeOf(err)
	f, ok := errors.AsType[*failure](err)
	if err != nil && (!ok || !f.quiet) && (!c.g.silent || c.g.showError) {
		_, _ = fmt.Fprintf(c.g.stderr(), "curl: (%d) %v\n", code, err)
		if code == exitBadPeer {
			_, _ = io.WriteString(c.g.stderr(), badPeerHelp)
		}
	}
	return code
}

// perform runs a transfer with its retries and returns the exit code.
func (t *transfer) perform(ctx context.Context) int {
	c, o := t.c, t.c.o
	t.began = time.Now()
	first, pause := t.began, cmp.Or(o.retryDelay, time.Second)
	if o.skipExisting && t.sink.name != "" && fileExists(t.sink.name) {
		c.g.notef("skips transfer, %q exists locally", t.sink.name)
		return 0
	}
	err := t.err
	for left := o.retries; err == nil || left < o.retries; left-- {
		t.err = nil
		err = t.attempt(ctx)
		if o.failBody && err == nil && t.last != nil && t.last.StatusCode >= 400 {
			err = fail(exitHTTPError, "The requested URL returned error: %d", t.last.StatusCode)
		}
		why := t.retryReason(err)
		if left == 0 || why == "" || o.retryMaxTime > 0 && time.Since(first) >= o.retryMaxTime {
			break
		}
		if err != nil {
			c.report(err)
		}
		wait := pause
		if after := t.retryAfter(); why == ": HTTP error" && after > wait {
			wait = after
			if o.retryMaxTime > 0 && time.Since(first)+after > o.retryMaxTime {
				c.g.warnf("The Retry-After: time would make this command line exceed the maximum allowed time " +
					"for retries.")
				break
			}
		}
		c.warnRetry(why, int(wait.Seconds()), left)
		if o.retryDelay == 0 {
			pause = min(pause*2, 10*time.Minute)
		}
		if !sleep(ctx, wait) {
			break
		}
		t.sink.again()
		t.stats = stats{retries: t.stats.retries + 1}
		t.began = time.Now()
	}
	err = t.sink.close(err, t.unmet)
	if err == nil && o.remoteTime && t.sink.name != "" && t.last != nil {
		if modified, parseErr := http.ParseTime(t.last.Header.Get("Last-Modified")); parseErr == nil {
			_ = os.Chtimes(t.sink.name, modified, modified) // curl goes on too
		}
	}
	code := c.report(err)
	t.err = err
	t.stats.total = time.Since(t.began)
	t.writeOut()
	return code
}

func (c *client) warnRetry(why string, wait, left int) {
	seconds, retries := "seconds", "retries"
	if wait == 1 {
		seconds = "second"
	}
	if left == 1 {
		retries = "retry"
	}
	c.g.warnf("Problem %s. Will retry in %d %s. %d %s left.", why, wait, seconds, left, retries)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(max(d, 0)):
		return true
	}
}

// retryReason says why to try again, or nothing: src/tool_operate.c,
// post_per_transfer.
func (t *transfer) retryReason(err error) string {
	o, code := t.c.o, codeOf(err)
	refused, isConnect := errors.AsType[*connectError](err)
	switch {
	case code == exitTimeout, code == exitNoHost, code == exitNoProxy:
		return ": timeout"
	case o.retryRefused && isConnect && refused.refused:
		return ": connection refused"
	case (code == 0 || code == exitHTTPError) && t.last != nil &&
		slices.Contains([]int{408, 429, 500, 502, 503, 504}, t.last.StatusCode):
		return ": HTTP error"
	case err != nil && o.retryAll:
		return "(retrying all errors)"
	}
	return ""
}

func (t *transfer) retryAfter() time.Duration {
	if t.last == nil {
		return 0
	}
	value := t.last.Header.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return time.Until(at).Round(time.Second)
	}
	return 0
}

// attempt performs a transfer once, with its redirects.
func (t *transfer) attempt(ctx context.Context) error {
	o := t.c.o
	if o.maxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.maxTime)
		defer cancel()
	}
	t.unmet = false
	if err := checkProtocol(t.url, o.proto); err != nil {
		return err
	}
	if t.url.scheme == "file" {
		return t.readFile()
	}
	if err := t.openDump(); err != nil {
		return err
	}
	if f, ok := t.dump.(*os.File); ok {
		defer f.Close() // written as curl writes it, without a check
	}
	err := t.follow(ctx)
	if err == nil {
		err = t.err
	}
	if err != nil && (errors.Is(ctx.Err(), context.DeadlineExceeded) || isTimeout(err)) && codeOf(err) != exitTimeout {
		text := fmt.Sprintf("Operation timed out after %d milliseconds with %d bytes received",
			time.Since(t.began).Milliseconds(), t.stats.downloaded)
		if t.last != nil && t.last.ContentLength > 0 {
			text = fmt.Sprintf("Operation timed out after %d milliseconds with %d out of %d bytes received",
				time.Since(t.began).Milliseconds(), t.stats.downloaded, t.last.ContentLength)
		}
		return fail(exitTimeout, "%s", text)
	}
	return err
}

// openDump opens the file of --dump-header; all transfers of an operation add to it.
func (t *transfer) openDump() error {
	name := t.c.o.headerFile
	switch name {
	case "":
		return nil
	case "-":
		t.dump = t.c.g.out
		return nil
	case "%":
		t.dump = t.c.g.stderr()
		return nil
	}
	if isNull(name) {
		return nil
	}
	if err := t.c.o.makeDirs(t.c.g, name); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !t.c.headerFileMade {
		flags |= os.O_TRUNC
		t.c.headerFileMade = true
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		t.c.g.errorf("Failed to open %s", name)
		return &failure{code: exitWrite, quiet: true}
	}
	t.dump = f
	return nil
}

// readFile is a file URL.
func (t *transfer) readFile() error {
	name := unescape(t.url.path)
	if len(name) > 2 && name[2] == ':' || len(name) > 2 && name[2] == '|' {
		name = name[1:2] + ":" + name[3:]
	}
	if t.upload != "" {
		data, err := t.c.g.read(t.upload)
		if err != nil {
			return t.noUpload()
		}
		if os.WriteFile(name, data, 0o644) != nil {
			return fail(exitWrite, "cannot open %s for writing", name)
		}
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return fail(exitFileUnreadable, "Couldn't open file %s", name)
	}
	defer f.Close() // only read
	if info, err := f.Stat(); t.c.o.include && err == nil {
		head := fmt.Sprintf("Content-Length: %d\r\nAccept-ranges: bytes\r\nLast-Modified: %s\r\n", info.Size(),
			info.ModTime().UTC().Format(http.TimeFormat))
		if t.c.o.head {
			t.received(head, true)
			return nil
		}
		t.received(head+"\r\n", true)
	}
	n, err := io.Copy(t.sink, f)
	t.stats.downloaded = n
	return err
}

func (t *transfer) noUpload() error {
	t.c.g.errorf("cannot open '%s'", t.upload)
	t.c.g.tryHelp()
	return fail(exitRead, "Failed to open/read local data from file/application")
}

// decoded undoes the content's encoding if --compressed asked for one.
func (t *transfer) decoded(a *answer) (io.Reader, error) {
	if !t.c.o.compressed {
		return a.Body, nil
	}
	var body io.Reader = a.Body
	names := strings.Split(strings.ToLower(strings.Join(a.Header.Values("Content-Encoding"), ",")), ",")
	slices.Reverse(names)
	for _, name := range names {
		var err error
		switch strings.TrimSpace(name) {
		case "", "identity":
		case "gzip", "x-gzip":
			body, err = gzip.NewReader(body)
		case "deflate":
			// Some servers send no zlib header.
			br := bufio.NewReader(body)
			if b, peekErr := br.Peek(1); peekErr == nil && b[0]&0x0f == 8 {
				body, err = zlib.NewReader(br)
			} else {
				body = flate.NewReader(br)
			}
		default:
			return nil, fail(exitEncoding, "Unrecognized content encoding type. "+
				"libcurl understands deflate, gzip content encodings.")
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fail(exitEncoding, "Error while processing content unencoding: %v", err)
		}
	}
	return body, nil
}

// save writes an answer's body.
func (t *transfer) save(a *answer) error {
	o := t.c.o
	if o.maxFileSize > 0 && a.ContentLength > o.maxFileSize {
		return fail(exitFileSize, "Maximum file size exceeded")
	}
	body, err := t.decoded(a)
	if err != nil {
		return err
	}
	if o.limitRate > 0 {
		body = &slowReader{r: body, perSecond: o.limitRate, began: time.Now()}
	}
	if o.maxFileSize > 0 {
		body = io.LimitReader(body, o.maxFileSize+1)
	}
	watch := &speedWatch{t: t, since: time.Now()}
	_, err = io.Copy(io.MultiWriter(t.sink, watch), body)
	if o.maxFileSize > 0 && t.stats.downloaded > o.maxFileSize {
		return fail(exitFileSize, "Exceeded the maximum allowed file size (%d) with %d bytes", o.maxFileSize,
			t.stats.downloaded)
	}
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

// speedWatch counts, and is --speed-limit.
type speedWatch struct {
	t     *transfer
	since time.Time
	bytes int64
}

func (w *speedWatch) Write(p []byte) (int, error) {
	o := w.t.c.o
	w.t.stats.downloaded += int64(len(p))
	w.bytes += int64(len(p))
	if took := time.Since(w.since); o.speedTime > 0 && took >= o.speedTime {
		if float64(w.bytes) < float64(o.speedLimit)*took.Seconds() {
			return 0, fail(exitTimeout, "Operation too slow. Less than %d bytes/sec transferred the last %d seconds",
				o.speedLimit, int(o.speedTime.Seconds()))
		}
		w.since, w.bytes = time.Now(), 0
	}
	return len(p), nil
}
