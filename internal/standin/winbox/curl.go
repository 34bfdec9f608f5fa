// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Exit codes of curl: curl.se/libcurl/c/libcurl-errors.html.
const (
	curlUnsupported  = 1
	curlFailedInit   = 2
	curlMalformed    = 3
	curlNoHost       = 6
	curlNoConnect    = 7
	curlHTTPError    = 22
	curlWriteError   = 23
	curlTimeout      = 28
	curlTLS          = 35
	curlTooManyJumps = 47
	curlEmptyReply   = 52
	curlReceive      = 56
	curlBadPeer      = 60
)

// curlRedirects is curl's default for --max-redirs.
const curlRedirects = 50

type curlOptions struct {
	urls                                                       []string
	method, output, user, agent, writeOut, upload              string
	headers                                                    []string
	data                                                       []byte
	hasData, head, follow, fail, silent, showError, include    bool
	retryRefused, retryAll, insecure, remoteName, verbose, get bool
	maxTime, connectTimeout                                    time.Duration
	resolve                                                    map[string]string
	caFile                                                     string
	retries                                                    int
}

// curl transfers over HTTP and HTTPS with the options that probes, hooks and
// scripts use. What it does not know it refuses, with curl's own exit code 2.
func curl(ctx context.Context, env *Env) int {
	o, err := parseCurl(env)
	if err != nil {
		env.errorf("curl: %v\ncurl: try 'curl --help' for more information\n", err)
		return curlFailedInit
	}
	if len(o.urls) == 0 {
		env.errorf("curl: try 'curl --help' for more information\n")
		return curlFailedInit
	}
	code := 0
	for _, u := range o.urls {
		for attempt := 0; ; attempt++ {
			code, err = o.transfer(ctx, env, u)
			if err == nil || attempt >= o.retries || !slices.Contains(o.retryCodes(), code) ||
				!sleepFor(ctx, time.Second<<min(attempt, 6)) {
				break
			}
		}
		if err != nil && (!o.silent || o.showError) {
			env.errorf("curl: (%d) %v\n", code, err)
		}
	}
	return code
}

// retryCodes returns the failures that --retry repeats; a refused connection only
// on demand, as curl has it.
func (o *curlOptions) retryCodes() []int {
	codes := []int{curlTimeout, curlHTTPError}
	if o.retryRefused {
		codes = append(codes, curlNoConnect)
	}
	if o.retryAll {
		codes = append(codes, curlNoConnect, curlNoHost, curlEmptyReply, curlReceive)
	}
	return codes
}

func (o *curlOptions) transfer(ctx context.Context, env *Env, target string) (int, error) {
	if !strings.Contains(target, "://") {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return curlMalformed, errors.New("URL using bad/illegal format or missing URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return curlUnsupported, fmt.Errorf("Protocol %q not supported", u.Scheme) // curl's text
	}
	if o.get && o.hasData {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+string(o.data), "&")
	}
	if o.maxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.maxTime)
		defer cancel()
	}
	client, err := o.client()
	if err != nil {
		return curlBadPeer, err
	}
	req, err := o.request(ctx, env, u)
	if err != nil {
		return curlFailedInit, err
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return curlFailure(err, u, began)
	}
	defer resp.Body.Close() // it was read or is not wanted
	if o.verbose {
		env.errorf("> %s %s HTTP/1.1\n< %s %s\n", req.Method, u.RequestURI(), resp.Proto, resp.Status)
	}
	if o.fail && resp.StatusCode >= 400 {
		o.report(env, resp, 0, time.Since(began))
		return curlHTTPError, fmt.Errorf("The requested URL returned error: %d", resp.StatusCode) // curl's text
	}
	n, code, err := o.save(env, resp, u)
	o.report(env, resp, n, time.Since(began))
	return code, err
}

// save writes headers and body where they belong.
func (o *curlOptions) save(env *Env, resp *http.Response, u *url.URL) (int64, int, error) {
	w := env.Stdout
	name := o.output
	if o.remoteName {
		name = path.Base(u.Path)
		if name == "/" || name == "." {
			return 0, curlWriteError, errors.New("Remote file name has no length") // curl's text
		}
	}
	if strings.EqualFold(name, "NUL") {
		w = io.Discard
	} else if name != "" && name != "-" {
		f, err := os.Create(name)
		if err != nil {
			return 0, curlWriteError, fmt.Errorf("Failure writing output to destination: %w", err) // curl's text
		}
		defer f.Close() // a write error shows in the copy
		w = f
	}
	if o.include || o.head {
		_, _ = io.WriteString(w, headerText(resp)) // as with the body
	}
	n, err := io.Copy(w, resp.Body)
	if err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return n, curlTimeout, errors.New("Operation timed out") // curl's text
		}
		return n, curlReceive, fmt.Errorf("Recv failure: %w", err) // curl's text
	}
	return n, 0, nil
}

func headerText(resp *http.Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\r\n", resp.Proto, resp.Status)
	_ = resp.Header.Write(&b) // a builder never fails
	b.WriteString("\r\n")
	return b.String()
}

// report prints --write-out.
func (o *curlOptions) report(env *Env, resp *http.Response, n int64, took time.Duration) {
	if o.writeOut == "" {
		return
	}
	text := strings.NewReplacer(
		"%{http_code}", fmt.Sprintf("%03d", resp.StatusCode), "%{response_code}", fmt.Sprintf("%03d", resp.StatusCode),
		"%{size_download}", strconv.FormatInt(n, 10), "%{time_total}", fmt.Sprintf("%.6f", took.Seconds()),
		"%{content_type}", resp.Header.Get("Content-Type"), "%{url_effective}", resp.Request.URL.String(),
		"%{redirect_url}", resp.Header.Get("Location"), `\n`, "\n", `\r`, "\r", `\t`, "\t", "%%", "%",
	).Replace(o.writeOut)
	_, _ = io.WriteString(env.Stdout, text) // as printf
}

func (o *curlOptions) client() (*http.Client, error) {
	dialer := &net.Dialer{Timeout: o.connectTimeout}
	tlsConfig := &tls.Config{InsecureSkipVerify: o.insecure} //nolint:gosec // -k asks for it
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		if err != nil {
			return nil, err
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("error setting certificate verify locations: %s", o.caFile)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:              http.ProxyFromEnvironment,
			TLSClientConfig:    tlsConfig,
			DisableKeepAlives:  true,
			DisableCompression: true,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if to, ok := o.resolve[address]; ok {
					address = to
				}
				return dialer.DialContext(ctx, network, address)
			},
		},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if !o.follow {
				return http.ErrUseLastResponse
			}
			if len(via) > curlRedirects {
				return errTooManyJumps
			}
			return nil
		},
	}, nil
}

var errTooManyJumps = fmt.Errorf("Maximum (%d) redirects followed", curlRedirects) // curl's text

func (o *curlOptions) request(ctx context.Context, env *Env, u *url.URL) (*http.Request, error) {
	method, body := http.MethodGet, []byte(nil)
	switch {
	case o.head:
		method = http.MethodHead
	case o.upload != "":
		method = http.MethodPut
		data, err := readInput(env, o.upload)
		if err != nil {
			return nil, err
		}
		body = data
	case o.hasData && !o.get:
		method, body = http.MethodPost, o.data
	}
	if o.method != "" {
		method = o.method
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(body))), nil }
	}
	req.Header.Set("User-Agent", "curl/8.13.0")
	req.Header.Set("Accept", "*/*")
	if o.hasData && !o.get {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if o.agent != "" {
		req.Header.Set("User-Agent", o.agent)
	}
	if o.user != "" {
		name, password, _ := strings.Cut(o.user, ":")
		req.SetBasicAuth(name, password)
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "Host"):
			req.Host = value
		case ok && value == "":
			req.Header.Del(name)
		case ok:
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

func readInput(env *Env, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(env.Stdin)
	}
	return os.ReadFile(name)
}

// curlFailure converts an error to curl's exit code and text.
func curlFailure(err error, u *url.URL, began time.Time) (int, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var dns *net.DNSError
	var timeout net.Error
	var op *net.OpError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	took := time.Since(began).Milliseconds()
	switch {
	case errors.Is(err, errTooManyJumps):
		return curlTooManyJumps, errTooManyJumps
	case errors.As(err, &dns):
		return curlNoHost, fmt.Errorf("Could not resolve host: %s", u.Hostname()) // curl's text
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid):
		return curlBadPeer, errors.New("SSL certificate problem: unable to get local issuer certificate")
	case errors.As(err, &record):
		return curlTLS, errors.New("schannel: failed to receive handshake, SSL/TLS connection failed")
	case errors.As(err, &timeout) && timeout.Timeout():
		// curl's text
		return curlTimeout, fmt.Errorf("Operation timed out after %d milliseconds with 0 bytes received", took)
	case errors.As(err, &op) && op.Op == "dial":
		// curl's text
		return curlNoConnect, fmt.Errorf("Failed to connect to %s port %s after %d ms: Could not connect to server",
			u.Hostname(), port, took)
	case errors.Is(err, io.EOF):
		return curlEmptyReply, errors.New("Empty reply from server") // curl's text
	}
	return curlReceive, err
}

// parseCurl reads the options. Short ones may stand together ("-sSf") and
// carry their value ("-XPOST").
func parseCurl(env *Env) (*curlOptions, error) {
	o := &curlOptions{resolve: map[string]string{}}
	for i := 0; i < len(env.Args); i++ {
		a := env.Args[i]
		next := func() (string, error) {
			i++
			if i >= len(env.Args) {
				return "", fmt.Errorf("option %s: requires parameter", a)
			}
			return env.Args[i], nil
		}
		switch {
		case a == "--":
			o.urls = append(o.urls, env.Args[i+1:]...)
			return o, nil
		case strings.HasPrefix(a, "--"):
			if err := o.set(env, a, next); err != nil {
				return nil, err
			}
		case strings.HasPrefix(a, "-") && len(a) > 1:
			for j := 1; j < len(a); j++ {
				rest := a[j+1:]
				used := false
				value := func() (string, error) {
					used = true
					if rest != "" {
						return rest, nil
					}
					return next()
				}
				if err := o.set(env, curlLong(a[j]), value); err != nil {
					return nil, fmt.Errorf("option %s: %w", a, err)
				}
				if used {
					break
				}
			}
		default:
			o.urls = append(o.urls, a)
		}
	}
	return o, nil
}

// curlLong returns the long form of a short option; an unknown one stays unknown.
func curlLong(c byte) string {
	const table = "s--silent S--show-error f--fail v--verbose i--include I--head L--location k--insecure " +
		"O--remote-name G--get " +
		"o--output X--request d--data H--header u--user A--user-agent w--write-out T--upload-file m--max-time " +
		"4--ipv4 6--ipv6 N--no-buffer # --"
	for f := range strings.FieldsSeq(table) {
		if f[0] == c {
			return f[1:]
		}
	}
	return "-" + string(c)
}

//nolint:gocyclo // Length: one table of options; splitting hides the order.
func (o *curlOptions) set(env *Env, option string, value func() (string, error)) error {
	flags := map[string]*bool{
		"--silent": &o.silent, "--show-error": &o.showError, "--fail": &o.fail, "--fail-with-body": &o.fail,
		"--verbose": &o.verbose, "--include": &o.include, "--head": &o.head, "--location": &o.follow,
		"--insecure": &o.insecure, "--remote-name": &o.remoteName, "--get": &o.get,
		"--retry-connrefused": &o.retryRefused, "--retry-all-errors": &o.retryAll,
	}
	if f, ok := flags[option]; ok {
		*f = true
		return nil
	}
	switch option {
	case "--ipv4", "--ipv6", "--no-buffer", "--compressed", "--http1.1", "--ssl-no-revoke", "--no-progress-meter",
		"--progress-bar", "--noproxy":
		return nil
	}
	texts := map[string]*string{
		"--output": &o.output, "--request": &o.method, "--user": &o.user, "--user-agent": &o.agent,
		"--write-out": &o.writeOut, "--upload-file": &o.upload, "--cacert": &o.caFile,
	}
	if t, ok := texts[option]; ok {
		v, err := value()
		*t = v
		return err
	}
	switch option {
	case "--header", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json", "--url",
		"--max-time", "--connect-timeout", "--retry", "--retry-delay", "--resolve":
	default:
		return fmt.Errorf("option %s: is unknown", option)
	}
	v, err := value()
	if err != nil {
		return err
	}
	switch option {
	case "--header":
		o.headers = append(o.headers, v)
	case "--url":
		o.urls = append(o.urls, v)
	case "--max-time":
		o.maxTime, err = curlSeconds(v)
	case "--connect-timeout":
		o.connectTimeout, err = curlSeconds(v)
	case "--retry":
		o.retries, err = strconv.Atoi(v)
	case "--retry-delay":
	case "--resolve":
		// host:port:address
		f := strings.SplitN(v, ":", 3)
		if len(f) != 3 {
			return fmt.Errorf("bad --resolve %q", v)
		}
		o.resolve[net.JoinHostPort(f[0], f[1])] = net.JoinHostPort(strings.Trim(f[2], "[]"), f[1])
	default:
		err = o.addData(env, option, v)
	}
	return err
}

func (o *curlOptions) addData(env *Env, option, v string) error {
	data := []byte(v)
	if name, ok := strings.CutPrefix(v, "@"); ok && option != "--data-raw" {
		var err error
		if data, err = readInput(env, name); err != nil {
			return err
		}
		if option == "--data" || option == "--data-ascii" {
			data = []byte(strings.NewReplacer("\r", "", "\n", "").Replace(string(data)))
		}
	}
	if option == "--data-urlencode" {
		name, val, ok := strings.Cut(v, "=")
		if ok {
			data = []byte(name + "=" + url.QueryEscape(val))
		} else {
			data = []byte(url.QueryEscape(v))
		}
	}
	if option == "--json" {
		o.headers = append(o.headers, "Content-Type: "+mime.FormatMediaType("application/json", nil),
			"Accept: application/json")
	} else if o.hasData {
		o.data = append(o.data, '&')
	}
	o.data, o.hasData = append(o.data, data...), true
	return nil
}

func curlSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 {
		return 0, fmt.Errorf("expected a proper numerical parameter, not %q", s)
	}
	return time.Duration(f * float64(time.Second)), nil
}
