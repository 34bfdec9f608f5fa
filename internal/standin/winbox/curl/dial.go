// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// conn is a connection to a server or proxy.
type conn struct {
	net.Conn
	r      *bufio.Reader
	key    string // what it may be used for again
	secure *tls.ConnectionState
	reused bool
}

// lookup applies --resolve: HOST:PORT:ADDRESS[,ADDRESS]; a host of "*" is any.
func (c *client) lookup(host, port string) (addresses []string, ok bool, err error) {
	for _, r := range c.o.resolves {
		r = strings.TrimPrefix(r, "+")
		if strings.HasPrefix(r, "-") {
			continue
		}
		h, rest, ok1 := cutHost(r)
		p, list, ok2 := strings.Cut(rest, ":")
		if !ok1 || !ok2 || list == "" {
			// lib/hostip.c: Curl_loadhostpairs
			return nil, false, fail(49, "Couldn't parse CURLOPT_RESOLVE entry '%s'", r)
		}
		if p == port && (h == "*" || strings.EqualFold(h, host)) {
			for a := range strings.SplitSeq(list, ",") {
				addresses = append(addresses, strings.Trim(a, "[]"))
			}
			return addresses, true, nil
		}
	}
	return nil, false, nil
}

// cutHost divides HOST:REST, where an IPv6 host stands in brackets.
func cutHost(s string) (host, rest string, ok bool) {
	if strings.HasPrefix(s, "[") {
		host, rest, ok = strings.Cut(s[1:], "]")
		return host, strings.TrimPrefix(rest, ":"), ok
	}
	return strings.Cut(s, ":")
}

// redirected applies --connect-to: HOST:PORT:HOST:PORT, where empty parts match
// or keep anything.
func (c *client) redirected(host, port string) (string, string) {
	for _, r := range c.o.connects {
		h, rest, _ := cutHost(r)
		p, rest, _ := strings.Cut(rest, ":")
		toHost, toPort, _ := cutHost(rest)
		if (h == "" || strings.EqualFold(h, host)) && (p == "" || p == port) {
			return cmp.Or(toHost, host), cmp.Or(toPort, port)
		}
	}
	return host, port
}

// noConnection is the text of exit code 7: lib/connect.c.
const noConnection = "Failed to connect to %s port %s after %d ms: Could not connect to server"

// connect opens a TCP connection to a host; proxy tells what to call it if its
// name is unknown.
func (c *client) connect(ctx context.Context, t *transfer, host, port string, proxy bool) (net.Conn, error) {
	began := time.Now()
	if c.o.connectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.o.connectTimeout, errConnectTimeout)
		defer cancel()
	}
	if c.o.unixSocket != "" {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.o.unixSocket)
		if err != nil {
			return nil, fail(exitNoConnect, noConnection, host, port, time.Since(began).Milliseconds())
		}
		return conn, nil
	}
	addresses, ok, err := c.lookup(host, port)
	if err != nil {
		return nil, err
	}
	if !ok {
		if addresses, err = net.DefaultResolver.LookupHost(ctx, host); err != nil && ctx.Err() == nil {
			if proxy {
				return nil, fail(exitNoProxy, "Could not resolve proxy: %s", host)
			}
			return nil, fail(exitNoHost, "Could not resolve host: %s", host)
		}
	}
	t.stats.nameLookup = time.Since(t.began)
	var last error
	tried := false
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a)
		if err != nil || c.o.network == "tcp4" && !ip.Is4() || c.o.network == "tcp6" && ip.Is4() {
			continue
		}
		tried = true
		t.infof("  Trying %s...", net.JoinHostPort(a, port))
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(a, port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	if !tried && ctx.Err() == nil {
		return nil, fail(exitNoHost, "Could not resolve host: %s", host)
	}
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), errConnectTimeout) {
			return nil, fail(exitTimeout, "Connection timed out after %d milliseconds",
				time.Since(t.began).Milliseconds())
		}
		return nil, ctx.Err()
	}
	return nil, &connectError{
		failure: failure{
			code: exitNoConnect,
			text: fmt.Sprintf(noConnection, host, port, time.Since(began).Milliseconds()),
		},
		refused: errors.Is(last, syscall.ECONNREFUSED) || strings.Contains(last.Error(), "refused"),
	}
}

var errConnectTimeout = errors.New("connect timeout")

// connectError reports whether --retry-connrefused applies.
type connectError struct {
	failure
	refused bool
}

func (e *connectError) Unwrap() error { return &e.failure }

// open returns a connection over which a request for a URL can be sent, and
// whether it must name the whole URL because a proxy gets it.
func (c *client) open(ctx context.Context, t *transfer, u *address) (*conn, bool, error) {
	proxy, err := c.proxyFor(u)
	if err != nil {
		return nil, false, err
	}
	key := u.scheme + " " + u.hostPort()
	whole := proxy != nil && strings.HasPrefix(proxy.scheme, "http") && u.scheme == "http" && !c.o.proxyTunnel
	if proxy != nil {
		key += " " + proxy.String()
	}
	if k := c.idle[key]; k != nil && !c.g.parallel {
		delete(c.idle, key)
		k.reused = true
		t.infof("Re-using existing connection with host %s", u.host)
		return k, whole, nil
	}
	host, port := c.redirected(u.host, u.realPort())
	var raw net.Conn
	if proxy == nil {
		raw, err = c.connect(ctx, t, host, port, false)
	} else {
		raw, err = c.connectProxy(ctx, t, proxy, host, port, whole)
	}
	if err != nil {
		return nil, false, err
	}
	t.stats.connects++
	t.stats.connected(raw, time.Since(t.began))
	t.infof("Connected to %s (%s) port %s", host, t.stats.remoteIP, port)
	k := &conn{Conn: raw, key: key}
	if u.scheme == "https" {
		secure, err := c.handshake(ctx, raw, u.host, c.o.insecure, c.o.caFile)
		if err != nil {
			_ = raw.Close() // the error of the handshake counts
			return nil, false, err
		}
		state := secure.ConnectionState()
		k.Conn, k.secure = secure, &state
		t.stats.appConnect = time.Since(t.began)
	}
	k.r = bufio.NewReaderSize(k.Conn, 64<<10)
	return k, whole, nil
}

// handshake begins TLS.
func (c *client) handshake(
	ctx context.Context, raw net.Conn, host string, insecure bool, caFile string,
) (*tls.Conn, error) {
	config := &tls.Config{
		ServerName:         strings.TrimSuffix(host, "."),
		InsecureSkipVerify: insecure, //nolint:gosec // --insecure asks for it
		MinVersion:         cmp.Or(c.o.minTLS, tls.VersionTLS12),
		MaxVersion:         c.o.maxTLS,
	}
	if caFile != "" || c.o.caPath != "" {
		pool, err := certificatePool(caFile, c.o.caPath)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if c.o.certFile != "" {
		pair, err := tls.LoadX509KeyPair(c.o.certFile, cmp.Or(c.o.keyFile, c.o.certFile))
		if err != nil {
			// lib/vtls/schannel.c; the number is CRYPT_E_NOT_FOUND's or that of a missing file.
			return nil, fail(exitCertificate, "schannel: Failed to import cert file %s, last error is 0x2",
				c.o.certFile)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if c.o.connectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.o.connectTimeout)
		defer cancel()
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, tlsFailure(ctx, err)
	}
	return secure, nil
}

func certificatePool(file, dir string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	files := []string{}
	if file != "" {
		files = append(files, file)
	}
	if dir != "" {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fail(exitBadCAFile, "schannel: failed to open CA path '%s': %v", dir, err)
		}
		for _, e := range entries {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fail(exitBadCAFile, "schannel: failed to open CA file '%s': %v", f, err)
		}
		if !pool.AppendCertsFromPEM(data) && f == file {
			return nil, fail(exitBadCAFile, "schannel: did not add any certificates from CA file '%s'", f)
		}
	}
	return pool, nil
}

// tlsFailure gives an error of the handshake Schannel's text, which Windows'
// curl prints: lib/vtls/schannel.c, lib/curl_sspi.c.
func tlsFailure(ctx context.Context, err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &host):
		return fail(exitBadPeer, "schannel: SNI or certificate check failed: SEC_E_WRONG_PRINCIPAL (0x80090322) - "+
			"The target principal name is incorrect.")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fail(exitBadPeer, "schannel: SEC_E_CERT_EXPIRED (0x80090328) - The received certificate has expired.")
	case errors.As(err, &unknown), errors.As(err, &invalid):
		return fail(exitBadPeer, "schannel: SEC_E_UNTRUSTED_ROOT (0x80090325) - "+
			"The certificate chain was issued by an authority that is not trusted.")
	case errors.As(err, &record):
		return fail(exitTLS, "schannel: next InitializeSecurityContext failed: SEC_E_INVALID_TOKEN (0x80090308) - "+
			"The token supplied to the function is invalid")
	}
	return fail(exitTLS, "schannel: next InitializeSecurityContext failed: %v", err)
}

// badPeerHelp follows error 60: src/tool_operate.c, CURL_CA_CERT_ERRORMSG.
const badPeerHelp = `More details here: https://curl.se/docs/sslcerts.html

curl failed to verify the legitimacy of the server and therefore could not
establish a secure connection to it. To learn more about this situation and
how to fix it, please visit the webpage mentioned above.
`

// proxyFor returns the proxy for a URL, or nil: --proxy, or the environment.
func (c *client) proxyFor(u *address) (*address, error) {
	spec := c.o.proxy
	get := func(names ...string) string {
		for _, n := range names {
			if v := c.g.env.Getenv(n); v != "" {
				return v
			}
		}
		return ""
	}
	if !c.o.hasProxy {
		spec = get(u.scheme+"_proxy", strings.ToUpper(u.scheme)+"_PROXY")
		if u.scheme == "http" {
			spec = get("http_proxy") // HTTP_PROXY may come from a CGI request's "Proxy" header
		}
		spec = cmp.Or(spec, get("all_proxy", "ALL_PROXY"))
	}
	without := c.o.noProxy
	if !c.o.hasNoProxy {
		without = get("no_proxy", "NO_PROXY")
	}
	if spec == "" || exempt(without, u.host) {
		return nil, nil
	}
	p, err := parseURL(spec, "http", false)
	if err != nil {
		return nil, fail(exitNoProxy, "Unsupported proxy syntax in '%s': %v", spec,
			strings.TrimPrefix(err.Error(), "URL rejected: "))
	}
	switch p.scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return nil, fail(exitNoConnect, "Unsupported proxy scheme for '%s'", spec)
	}
	if p.port == "" {
		p.port = "1080"
		if p.scheme == "https" {
			p.port = "443"
		}
	}
	if c.o.proxyUser != "" {
		p.user, p.password, _ = strings.Cut(c.o.proxyUser, ":")
		p.hasUser = true
	}
	return p, nil
}

// exempt reports whether a list of --noproxy names a host: lib/noproxy.c.
func exempt(list, host string) bool {
	if strings.TrimSpace(list) == "*" {
		return true
	}
	ip, isIP := netip.ParseAddr(host)
	for name := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		if prefix, err := netip.ParsePrefix(name); err == nil {
			if isIP == nil && prefix.Contains(ip) {
				return true
			}
			continue
		}
		name = strings.Trim(strings.TrimPrefix(name, "."), "[]")
		if strings.EqualFold(name, host) ||
			isIP != nil && domainMatches(strings.TrimSuffix(name, "."), strings.TrimSuffix(host, ".")) {
			return true
		}
	}
	return false
}

// connectProxy connects to a host through a proxy; whole tells that the proxy
// gets the request itself.
func (c *client) connectProxy(
	ctx context.Context, t *transfer, p *address, host, port string, whole bool,
) (net.Conn, error) {
	raw, err := c.connect(ctx, t, p.host, p.port, true)
	if err != nil {
		return nil, err
	}
	if p.scheme == "https" {
		if raw, err = c.secureProxy(ctx, raw, p); err != nil {
			return nil, err
		}
	}
	switch {
	case strings.HasPrefix(p.scheme, "socks5"):
		err = socks5(raw, p, host, port, p.scheme == "socks5h")
	case !whole:
		err = c.tunnel(t, raw, p, host, port)
	}
	if err != nil {
		_ = raw.Close() // why it is of no use is the error
		return nil, err
	}
	return raw, nil
}

func (c *client) secureProxy(ctx context.Context, raw net.Conn, p *address) (net.Conn, error) {
	secure, err := c.handshake(ctx, raw, p.host, c.o.proxyInsecure, c.o.proxyCAFile)
	if err != nil {
		_ = raw.Close() // the error of the handshake counts
		return nil, err
	}
	return secure, nil
}

// tunnel asks an HTTP proxy for a connection.
func (c *client) tunnel(t *transfer, raw net.Conn, p *address, host, port string) error {
	target := net.JoinHostPort(host, port)
	head := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if p.hasUser {
		head += "Proxy-Authorization: " + basicAuth(p.user, p.password) + "\r\n"
	}
	head += c.agentHeader() + "Proxy-Connection: Keep-Alive\r\n"
	for _, h := range c.o.proxyHeaders {
		head += h + "\r\n"
	}
	t.sent(head + "\r\n")
	if _, err := raw.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	// One byte at a time: what follows the head belongs to the server.
	head, err := readHead(&oneByte{raw})
	if err != nil {
		return fail(exitReceive, "Proxy CONNECT aborted")
	}
	t.received(head, !c.o.noConnectHeaders)
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fail(exitReceive, "Proxy CONNECT aborted")
	}
	_ = resp.Body.Close() // what follows is the tunnel
	t.stats.connectCode = resp.StatusCode
	if resp.StatusCode/100 != 2 {
		return fail(exitReceive, "CONNECT tunnel failed, response %d", resp.StatusCode)
	}
	return nil
}

type oneByte struct{ net.Conn }

func (o *oneByte) ReadString(byte) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := o.Read(b); err != nil {
			return string(line), err
		}
		if line = append(line, b[0]); b[0] == '\n' {
			return string(line), nil
		}
	}
}

// socks5 asks a SOCKS proxy for a connection: RFC 1928 and 1929.
func socks5(raw net.Conn, p *address, host, port string, remote bool) error {
	methods := []byte{5, 1, 0}
	if p.hasUser {
		methods = []byte{5, 2, 0, 2}
	}
	answer := make([]byte, 2)
	if err := ask(raw, methods, answer); err != nil {
		return err
	}
	if answer[1] == 2 && p.hasUser {
		login := append([]byte{1, byte(len(p.user))}, p.user...)
		login = append(append(login, byte(len(p.password))), p.password...)
		if err := ask(raw, login, answer); err != nil {
			return err
		}
		if answer[1] != 0 {
			return fail(exitProxy, "User was rejected by the SOCKS5 server (%d %d).", answer[0], answer[1])
		}
	} else if answer[1] != 0 {
		return fail(exitProxy, "No authentication method was acceptable.")
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		return err
	}
	request := []byte{5, 1, 0}
	ip, err := netip.ParseAddr(host)
	if err != nil && !remote {
		addresses, lookupErr := net.LookupHost(host)
		if lookupErr != nil {
			return fail(exitProxy, "Failed to resolve \"%s\" for SOCKS5 connect.", host)
		}
		ip, err = netip.ParseAddr(addresses[0])
	}
	switch {
	case err != nil && len(host) > 255:
		return fail(exitProxy, "SOCKS5: the destination hostname is too long to be resolved remotely by the proxy.")
	case err != nil:
		request = append(append(request, 3, byte(len(host))), host...)
	case ip.Is4():
		request = append(append(request, 1), ip.AsSlice()...)
	default:
		request = append(append(request, 4), ip.AsSlice()...)
	}
	head := make([]byte, 4)
	if err := ask(raw, append(request, byte(n>>8), byte(n)), head); err != nil {
		return err
	}
	if head[1] != 0 {
		return fail(exitProxy, "cannot complete SOCKS5 connection to %s. (%d)", host, head[1])
	}
	rest := map[byte]int{1: 4 + 2, 4: 16 + 2}[head[3]]
	if head[3] == 3 {
		length := make([]byte, 1)
		if err := ask(raw, nil, length); err != nil {
			return err
		}
		rest = int(length[0]) + 2
	}
	return ask(raw, nil, make([]byte, rest))
}
