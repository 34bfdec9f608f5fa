// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// conn is a connection to a server. Each request opens one.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// open connects to the server of a URL.
func (t *transfer) open(ctx context.Context, u *url.URL) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.connectTimeout)
	defer cancel()
	k, err := t.dial(ctx, u)
	if err == nil && u.Scheme == "https" {
		k, err = t.handshake(ctx, k, u.Hostname())
	}
	if ctx.Err() != nil && err != nil {
		return nil, fail(exitTimeout, "Connection timed out after %d milliseconds", time.Since(t.began).Milliseconds())
	}
	if err != nil {
		return nil, err
	}
	return &conn{k, bufio.NewReaderSize(k, 64<<10)}, nil
}

// dial opens a TCP connection to the first address that accepts one.
func (t *transfer) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	host := u.Hostname()
	addresses, err := t.resolved(host, port(u))
	if err != nil {
		return nil, err
	}
	if addresses == nil {
		addresses, _ = net.DefaultResolver.LookupHost(ctx, host) // an error leaves no address
	}
	t.stats.nameLookup = time.Since(t.began)
	err = fail(exitNoHost, "Could not resolve host: %s", host)
	for _, a := range addresses {
		ip, parseErr := netip.ParseAddr(a)
		if parseErr != nil || t.opts.network == "tcp4" && !ip.Is4() || t.opts.network == "tcp6" && ip.Is4() {
			continue
		}
		t.infof("  Trying %s...", net.JoinHostPort(a, port(u)))
		k, dialErr := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(a, port(u)))
		if dialErr == nil {
			t.stats.connects++
			t.stats.connect = time.Since(t.began)
			t.stats.remoteIP, t.stats.remotePort, _ = net.SplitHostPort(k.RemoteAddr().String())
			t.stats.localIP, t.stats.localPort, _ = net.SplitHostPort(k.LocalAddr().String())
			t.infof("Connected to %s (%s) port %s", host, t.stats.remoteIP, port(u))
			return k, nil
		}
		err = &failure{
			code: exitNoConnect,
			// lib/connect.c
			text: fmt.Sprintf("Failed to connect to %s port %s after %d ms: Could not connect to server",
				host, port(u), time.Since(t.began).Milliseconds()),
			refused: errors.Is(dialErr, syscall.ECONNREFUSED) || strings.Contains(dialErr.Error(), "refused"),
		}
	}
	return nil, err
}

// resolved applies --resolve: HOST:PORT:ADDRESS[,ADDRESS]; a host of "*" is any.
func (t *transfer) resolved(host, port string) ([]string, error) {
	for _, r := range t.opts.resolves {
		parts := strings.SplitN(strings.TrimPrefix(r, "+"), ":", 3)
		if len(parts) < 3 || parts[2] == "" {
			// lib/hostip.c: Curl_loadhostpairs
			return nil, fail(exitResolveEntry, "Couldn't parse CURLOPT_RESOLVE entry '%s'", r)
		}
		if parts[1] == port && (parts[0] == "*" || strings.EqualFold(parts[0], host)) {
			return strings.Split(strings.NewReplacer("[", "", "]", "").Replace(parts[2]), ","), nil
		}
	}
	return nil, nil
}

// handshake begins TLS on a connection, or closes it.
func (t *transfer) handshake(ctx context.Context, raw net.Conn, host string) (net.Conn, error) {
	config := &tls.Config{
		ServerName:         strings.TrimSuffix(host, "."),
		InsecureSkipVerify: t.opts.insecure, //nolint:gosec // the meaning of --insecure
		MinVersion:         tls.VersionTLS12,
	}
	if t.opts.caFile != "" {
		data, err := os.ReadFile(t.opts.caFile)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(data) {
			_ = raw.Close() // the certificates are the error
			return nil, fail(exitBadCAFile, "schannel: did not add any certificates from CA file '%s'", t.opts.caFile)
		}
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the error of the handshake counts
		return nil, tlsFailure(err)
	}
	t.stats.appConnect = time.Since(t.began)
	return secure, nil
}

// tlsFailure gives an error of the handshake the text of Schannel, which Windows'
// curl prints: lib/vtls/schannel.c, lib/curl_sspi.c.
func tlsFailure(err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
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
