// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"slices"
	"strings"
	"time"
)

// settings hold the values of the options.
type settings struct {
	urls    []string
	outputs []target // of the URLs, in their order
	uploads []string // likewise

	silent, showError, verbose bool

	// the request
	method, userAgent, referer, user    string
	noAgent, head, get, isJSON, hasData bool
	headers, cookies                    []string
	data                                []byte
	parts                               []part

	// the connection
	network                 string // tcp, tcp4 or tcp6
	resolves                []string
	insecure                bool
	caFile                  string
	connectTimeout, maxTime time.Duration

	// further requests
	follow, retryAll, retryRefused bool
	maxRedirs, retries             int
	retryDelay, retryMaxTime       time.Duration

	// the response
	fail, failBody, include, createDirs, globOff bool
	outputDir, writeOut                          string
}

func defaults() settings {
	return settings{network: "tcp", maxRedirs: 50, connectTimeout: 300 * time.Second} // lib/urldata.h, lib/connect.h
}

// A kind is the kind of value that an option takes.
type kind int

const (
	none    kind = iota // no value; there is no --no- form
	boolean             // no value; --no-NAME switches it off
	text
	file // the name of a file
)

// An action applies an option. The value is empty for booleans, and on reports
// whether one is switched on.
type action func(c *client, value string, on bool) error

// An option is one line of curl's manual.
type option struct {
	long  string
	short byte // 0 if there is no short form
	takes kind
	do    action
}

// flag sets a boolean.
func flag(field func(*settings) *bool) action {
	return func(c *client, _ string, on bool) error { *field(&c.opts) = on; return nil }
}

// set sets a text, which must not be empty.
func set(field func(*settings) *string) action {
	return func(c *client, value string, _ bool) error {
		if value == "" {
			return errBlank
		}
		*field(&c.opts) = value
		return nil
	}
}

// add appends a value to a list.
func add(field func(*settings) *[]string) action {
	return func(c *client, value string, _ bool) error {
		*field(&c.opts) = append(*field(&c.opts), value)
		return nil
	}
}

// period sets a number of seconds, with a fraction.
func period(field func(*settings) *time.Duration) action {
	return func(c *client, value string, _ bool) (err error) {
		*field(&c.opts), err = parseSeconds(value)
		return err
	}
}

// count sets a natural number.
func count(field func(*settings) *int) action {
	return func(c *client, value string, _ bool) (err error) {
		*field(&c.opts), err = parseNumber(value)
		return err
	}
}

// options lists the implemented options.
var options = []option{
	{"cacert", 0, file, (*client).setCACert},
	{"connect-timeout", 0, text, period(func(o *settings) *time.Duration { return &o.connectTimeout })},
	{"cookie", 'b', text, (*client).addCookie},
	{"create-dirs", 0, boolean, flag(func(o *settings) *bool { return &o.createDirs })},
	{"data", 'd', text, (*client).dataText},
	{"data-ascii", 0, text, (*client).dataText},
	{"data-binary", 0, text, (*client).dataBinary},
	{"data-raw", 0, text, (*client).dataRaw},
	{"data-urlencode", 0, text, (*client).dataEncoded},
	{"fail", 'f', boolean, (*client).setFail},
	{"fail-with-body", 0, boolean, (*client).setFailBody},
	{"form", 'F', text, (*client).addPart},
	{"get", 'G', boolean, flag(func(o *settings) *bool { return &o.get })},
	{"globoff", 'g', boolean, flag(func(o *settings) *bool { return &o.globOff })},
	{"head", 'I', boolean, (*client).setHead},
	{"header", 'H', text, (*client).addHeader},
	{"help", 'h', boolean, func(*client, string, bool) error { return errHelp }},
	{"include", 0, boolean, flag(func(o *settings) *bool { return &o.include })},
	{"insecure", 'k', boolean, flag(func(o *settings) *bool { return &o.insecure })},
	{"ipv4", '4', none, func(c *client, _ string, _ bool) error { c.opts.network = "tcp4"; return nil }},
	{"ipv6", '6', none, func(c *client, _ string, _ bool) error { c.opts.network = "tcp6"; return nil }},
	{"json", 0, text, (*client).dataJSON},
	{"location", 'L', boolean, flag(func(o *settings) *bool { return &o.follow })},
	{"max-redirs", 0, text, (*client).setMaxRedirs},
	{"max-time", 'm', text, period(func(o *settings) *time.Duration { return &o.maxTime })},
	{"output", 'o', file, (*client).addOutput},
	{"output-dir", 0, text, set(func(o *settings) *string { return &o.outputDir })},
	{"referer", 'e', text, set(func(o *settings) *string { return &o.referer })},
	{"remote-name", 'O', boolean, (*client).addRemoteName},
	{"request", 'X', text, set(func(o *settings) *string { return &o.method })},
	{"resolve", 0, text, add(func(o *settings) *[]string { return &o.resolves })},
	{"retry", 0, text, count(func(o *settings) *int { return &o.retries })},
	{"retry-all-errors", 0, boolean, flag(func(o *settings) *bool { return &o.retryAll })},
	{"retry-connrefused", 0, boolean, flag(func(o *settings) *bool { return &o.retryRefused })},
	{"retry-delay", 0, text, period(func(o *settings) *time.Duration { return &o.retryDelay })},
	{"retry-max-time", 0, text, period(func(o *settings) *time.Duration { return &o.retryMaxTime })},
	{"show-error", 'S', boolean, flag(func(o *settings) *bool { return &o.showError })},
	{"show-headers", 'i', boolean, flag(func(o *settings) *bool { return &o.include })},
	{"silent", 's', boolean, flag(func(o *settings) *bool { return &o.silent })},
	{"upload-file", 'T', file, add(func(o *settings) *[]string { return &o.uploads })},
	{"url", 0, text, (*client).addURL},
	{"user", 'u', text, set(func(o *settings) *string { return &o.user })},
	{"user-agent", 'A', text, (*client).setUserAgent},
	{"verbose", 'v', boolean, flag(func(o *settings) *bool { return &o.verbose })},
	{"version", 'V', boolean, func(*client, string, bool) error { return errVersion }},
	{"write-out", 'w', text, (*client).setWriteOut},
}

// Options that are accepted and have no effect: no options file is read, no
// progress is drawn, no proxy is used, output is not buffered, TLS is 1.2 or
// later, and Go's library decides the rest.
const (
	ignoredFlags = "alpn basic buffer ca-native disable http1.1 keepalive npn progress-bar progress-meter sessionid " +
		"ssl-allow-beast ssl-no-revoke ssl-revoke-best-effort styled-output tcp-fastopen tcp-nodelay tlsv1 tlsv1.0 " +
		"tlsv1.1 tlsv1.2"
	ignoredValues = "keepalive-cnt keepalive-time noproxy"
)

// refused are the other options of curl 8.13.
const refused = `
	abstract-unix-socket alt-svc anyauth append aws-sigv4 capath cert cert-status cert-type ciphers clobber compressed
	compressed-ssh config connect-to continue-at cookie-jar create-file-mode crlf crlfile curves delegation digest
	disable-eprt disable-epsv disallow-username-in-url dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers
	doh-cert-status doh-insecure doh-url dump-ca-embed dump-header ech egd-file engine eprt epsv etag-compare
	etag-save expect100-timeout fail-early false-start form-escape form-string ftp-account ftp-alternative-to-user
	ftp-create-dirs ftp-method ftp-pasv ftp-port ftp-pret ftp-skip-pasv-ip ftp-ssl ftp-ssl-ccc ftp-ssl-ccc-mode
	ftp-ssl-control ftp-ssl-reqd happy-eyeballs-timeout-ms haproxy-clientip haproxy-protocol hostpubmd5 hostpubsha256
	hsts http0.9 http1.0 http2 http2-prior-knowledge http3 http3-only ignore-content-length interface ip-tos
	ipfs-gateway junk-session-cookies key key-type krb krb4 libcurl limit-rate list-only local-port location-trusted
	login-options mail-auth mail-from mail-rcpt mail-rcpt-allowfails manual max-filesize metalink mptcp negotiate
	netrc netrc-file netrc-optional next ntlm ntlm-wb oauth2-bearer parallel parallel-immediate parallel-max pass
	path-as-is pinnedpubkey post301 post302 post303 preproxy proto proto-default proto-redir proxy proxy-anyauth
	proxy-basic proxy-ca-native proxy-cacert proxy-capath proxy-cert proxy-cert-type proxy-ciphers proxy-crlfile
	proxy-digest proxy-header proxy-http2 proxy-insecure proxy-key proxy-key-type proxy-negotiate proxy-ntlm
	proxy-pass proxy-pinnedpubkey proxy-service-name proxy-ssl-allow-beast proxy-ssl-auto-client-cert
	proxy-tls13-ciphers proxy-tlsauthtype proxy-tlspassword proxy-tlsuser proxy-tlsv1 proxy-user proxy1.0 proxytunnel
	pubkey quote random-file range rate raw remote-header-name remote-name-all remote-time remove-on-error
	request-target sasl-authzid sasl-ir service-name skip-existing socks4 socks4a socks5 socks5-basic socks5-gssapi
	socks5-gssapi-nec socks5-gssapi-service socks5-hostname speed-limit speed-time ssl ssl-auto-client-cert ssl-reqd
	ssl-sessions sslv2 sslv3 stderr suppress-connect-headers telnet-option tftp-blksize tftp-no-options time-cond
	tls-earlydata tls-max tls13-ciphers tlsauthtype tlspassword tlsuser tlsv1.3 tr-encoding trace trace-ascii
	trace-config trace-ids trace-time unix-socket upload-flags url-query use-ascii variable vlan-priority xattr`

// shorts are the letters of the options that are ignored or refused.
var shorts = map[byte]string{
	'#': "progress-bar", '0': "http1.0", '1': "tlsv1", '2': "sslv2", '3': "sslv3", ':': "next", 'a': "append",
	'B': "use-ascii", 'C': "continue-at", 'c': "cookie-jar", 'D': "dump-header", 'E': "cert", 'J': "remote-header-name",
	'j': "junk-session-cookies", 'K': "config", 'l': "list-only", 'M': "manual", 'N': "buffer", 'n': "netrc",
	'P': "ftp-port", 'p': "proxytunnel", 'Q': "quote", 'q': "disable", 'R': "remote-time", 'r': "range",
	't': "telnet-option", 'U': "proxy-user", 'x': "proxy", 'Y': "speed-limit", 'y': "speed-time", 'Z': "parallel",
	'z': "time-cond",
}

// find returns the option with a long name. curl 8 accepts no abbreviations.
func find(long string) (option, bool) {
	for _, o := range options {
		if o.long == long {
			return o, true
		}
	}
	ignore := func(*client, string, bool) error { return nil }
	refuse := func(*client, string, bool) error { return errNotBuilt }
	for _, list := range []struct {
		names string
		takes kind
		do    action
	}{{ignoredFlags, boolean, ignore}, {ignoredValues, text, ignore}, {refused, boolean, refuse}} {
		if slices.Contains(strings.Fields(list.names), long) {
			return option{long, 0, list.takes, list.do}, true
		}
	}
	return option{}, false
}

// findShort returns the option of a letter.
func findShort(letter byte) (option, bool) {
	for _, o := range options {
		if o.short == letter && letter != 0 {
			return o, true
		}
	}
	return find(shorts[letter])
}
