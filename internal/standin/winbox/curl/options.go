// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

// A kind says what an option takes.
type kind int

const (
	none    kind = iota // nothing; there is no --no- form
	boolean             // nothing; --no-NAME switches it off
	text                // a text
	file                // the name of a file
	seconds             // a number of seconds, with a fraction
	number              // a natural number
)

// An action does what an option says. The value is empty for booleans, and on
// reports whether one is switched on.
type action func(p *parser, value string, on bool) error

// An option is one line of curl's manual.
type option struct {
	long  string
	short byte // 0 is none
	takes kind
	do    action // nil: refused
}

// flag sets a boolean of the operation.
func flag(field func(*operation) *bool) action {
	return func(p *parser, _ string, on bool) error { *field(p.op) = on; return nil }
}

// everywhere sets a boolean of all operations.
func everywhere(field func(*global) *bool) action {
	return func(p *parser, _ string, on bool) error { *field(p.global) = on; return nil }
}

// set sets a text of the operation, which must not be empty.
func set(field func(*operation) *string) action {
	return func(p *parser, value string, _ bool) error {
		if value == "" {
			return errBlank
		}
		*field(p.op) = value
		return nil
	}
}

// setAny sets a text of the operation, which may be empty.
func setAny(field func(*operation) *string) action {
	return func(p *parser, value string, _ bool) error { *field(p.op) = value; return nil }
}

// existing sets the name of a file that must exist.
func existing(name string, field func(*operation) *string) action {
	return func(p *parser, value string, _ bool) error {
		if !fileExists(value) {
			p.errorf("The file '%s' provided to --%s does not exist", value, name)
			return errBadUse
		}
		*field(p.op) = value
		return nil
	}
}

// noEffect accepts an option that changes nothing here: it belongs to a protocol
// that is refused with its URL, to a display that is not drawn, or to a detail of
// sockets and certificates that Go's library decides.
func noEffect(*parser, string, bool) error { return nil }

// deprecated accepts an option that curl itself no longer acts on.
func deprecated(name string) action {
	return func(p *parser, _ string, _ bool) error {
		p.warnf("--%s is deprecated and has no function anymore", name)
		return nil
	}
}

// options lists the options of curl 8.13, sorted by name.
var options = []option{
	{"abstract-unix-socket", 0, file, nil},
	{"alpn", 0, boolean, noEffect},
	{"alt-svc", 0, text, nil},
	{"anyauth", 0, boolean, (*parser).anyAuth},
	{"append", 'a', boolean, noEffect},
	{"aws-sigv4", 0, text, nil},
	{"basic", 0, boolean, (*parser).basic},
	{"buffer", 'N', boolean, noEffect},
	{"ca-native", 0, boolean, noEffect},
	{"cacert", 0, file, existing("cacert", func(o *operation) *string { return &o.caFile })},
	{"capath", 0, file, set(func(o *operation) *string { return &o.caPath })},
	{"cert", 'E', file, (*parser).certificate},
	{"cert-status", 0, boolean, nil},
	{"cert-type", 0, text, (*parser).certificateType},
	{"ciphers", 0, text, nil},
	{"clobber", 0, boolean, (*parser).clobber},
	{"compressed", 0, boolean, flag(func(o *operation) *bool { return &o.compressed })},
	{"compressed-ssh", 0, boolean, noEffect},
	{"config", 'K', file, (*parser).config},
	{"connect-timeout", 0, text, (*parser).connectTimeout},
	{"connect-to", 0, text, (*parser).connectTo},
	{"continue-at", 'C', text, (*parser).continueAt},
	{"cookie", 'b', text, (*parser).cookie},
	{"cookie-jar", 'c', text, set(func(o *operation) *string { return &o.cookieJar })},
	{"create-dirs", 0, boolean, flag(func(o *operation) *bool { return &o.createDirs })},
	{"create-file-mode", 0, text, noEffect},
	{"crlf", 0, boolean, noEffect},
	{"crlfile", 0, file, nil},
	{"curves", 0, text, nil},
	{"data", 'd', text, (*parser).dataText},
	{"data-ascii", 0, text, (*parser).dataText},
	{"data-binary", 0, text, (*parser).dataBinary},
	{"data-raw", 0, text, (*parser).dataRaw},
	{"data-urlencode", 0, text, (*parser).dataEncoded},
	{"delegation", 0, text, noEffect},
	{"digest", 0, boolean, (*parser).digest},
	{"disable", 'q', boolean, noEffect},
	{"disable-eprt", 0, boolean, noEffect},
	{"disable-epsv", 0, boolean, noEffect},
	{"disallow-username-in-url", 0, boolean, flag(func(o *operation) *bool { return &o.noUserInURL })},
	{"dns-interface", 0, text, nil},
	{"dns-ipv4-addr", 0, text, nil},
	{"dns-ipv6-addr", 0, text, nil},
	{"dns-servers", 0, text, nil},
	{"doh-cert-status", 0, boolean, nil},
	{"doh-insecure", 0, boolean, nil},
	{"dump-ca-embed", 0, none, nil},
	{"dump-header", 'D', file, set(func(o *operation) *string { return &o.headerFile })},
	{"ech", 0, text, nil},
	{"egd-file", 0, text, deprecated("egd-file")},
	{"engine", 0, text, nil},
	{"eprt", 0, boolean, noEffect},
	{"epsv", 0, boolean, noEffect},
	{"etag-compare", 0, file, set(func(o *operation) *string { return &o.etagCompare })},
	{"etag-save", 0, file, set(func(o *operation) *string { return &o.etagSave })},
	{"expect100-timeout", 0, text, (*parser).expectTimeout},
	{"fail", 'f', boolean, (*parser).failNoBody},
	{"fail-early", 0, boolean, everywhere(func(g *global) *bool { return &g.failEarly })},
	{"fail-with-body", 0, boolean, (*parser).failBody},
	{"false-start", 0, boolean, noEffect},
	{"form", 'F', text, (*parser).form},
	{"form-escape", 0, boolean, flag(func(o *operation) *bool { return &o.formEscape })},
	{"form-string", 0, text, (*parser).formString},
	{"ftp-account", 0, text, noEffect},
	{"ftp-alternative-to-user", 0, text, noEffect},
	{"ftp-create-dirs", 0, boolean, noEffect},
	{"ftp-method", 0, text, noEffect},
	{"ftp-pasv", 0, boolean, noEffect},
	{"ftp-port", 'P', text, noEffect},
	{"ftp-pret", 0, boolean, noEffect},
	{"ftp-skip-pasv-ip", 0, boolean, noEffect},
	{"ftp-ssl", 0, boolean, (*parser).insecureSSL},
	{"ftp-ssl-ccc", 0, boolean, noEffect},
	{"ftp-ssl-ccc-mode", 0, text, noEffect},
	{"ftp-ssl-control", 0, boolean, noEffect},
	{"ftp-ssl-reqd", 0, boolean, noEffect},
	{"get", 'G', boolean, flag(func(o *operation) *bool { return &o.get })},
	{"globoff", 'g', boolean, flag(func(o *operation) *bool { return &o.globOff })},
	{"happy-eyeballs-timeout-ms", 0, text, noEffect},
	{"haproxy-clientip", 0, text, nil},
	{"haproxy-protocol", 0, boolean, nil},
	{"head", 'I', boolean, (*parser).head},
	{"header", 'H', text, (*parser).header},
	{"help", 'h', boolean, (*parser).help},
	{"hostpubmd5", 0, text, noEffect},
	{"hostpubsha256", 0, text, noEffect},
	{"hsts", 0, text, nil},
	{"http0.9", 0, boolean, noEffect},
	{"http1.0", '0', none, (*parser).http10},
	{"http1.1", 0, none, (*parser).http11},
	{"http2", 0, none, nil},
	{"http2-prior-knowledge", 0, none, nil},
	{"http3", 0, none, nil},
	{"http3-only", 0, none, nil},
	{"ignore-content-length", 0, boolean, flag(func(o *operation) *bool { return &o.ignoreLength })},
	{"include", 0, boolean, flag(func(o *operation) *bool { return &o.include })},
	{"insecure", 'k', boolean, flag(func(o *operation) *bool { return &o.insecure })},
	{"interface", 0, text, nil},
	{"ip-tos", 0, text, nil},
	{"ipfs-gateway", 0, text, nil},
	{"ipv4", '4', none, (*parser).ipv4},
	{"ipv6", '6', none, (*parser).ipv6},
	{"json", 0, text, (*parser).json},
	{"junk-session-cookies", 'j', boolean, flag(func(o *operation) *bool { return &o.junkSession })},
	{"keepalive", 0, boolean, noEffect},
	{"keepalive-cnt", 0, text, noEffect},
	{"keepalive-time", 0, text, noEffect},
	{"key", 0, file, set(func(o *operation) *string { return &o.keyFile })},
	{"key-type", 0, text, (*parser).certificateType},
	{"krb", 0, text, noEffect},
	{"krb4", 0, text, noEffect},
	{"libcurl", 0, text, nil},
	{"limit-rate", 0, text, (*parser).limitRate},
	{"list-only", 'l', boolean, noEffect},
	{"local-port", 0, text, nil},
	{"location", 'L', boolean, (*parser).location},
	{"location-trusted", 0, boolean, (*parser).locationTrusted},
	{"login-options", 0, text, noEffect},
	{"mail-auth", 0, text, noEffect},
	{"mail-from", 0, text, noEffect},
	{"mail-rcpt", 0, text, noEffect},
	{"mail-rcpt-allowfails", 0, boolean, noEffect},
	{"manual", 'M', boolean, (*parser).manual},
	{"max-filesize", 0, text, (*parser).maxFileSize},
	{"max-redirs", 0, text, (*parser).maxRedirs},
	{"max-time", 'm', text, (*parser).maxTime},
	{"metalink", 0, boolean, nil},
	{"mptcp", 0, boolean, nil},
	{"negotiate", 0, boolean, nil},
	{"netrc", 'n', boolean, flag(func(o *operation) *bool { return &o.netrc })},
	{"netrc-file", 0, file, existing("netrc-file", func(o *operation) *string { return &o.netrcFile })},
	{"netrc-optional", 0, boolean, flag(func(o *operation) *bool { return &o.netrcOptional })},
	{"next", ':', none, (*parser).nextOperation},
	{"noproxy", 0, text, (*parser).noProxyFor},
	{"npn", 0, boolean, noEffect},
	{"ntlm", 0, boolean, nil},
	{"ntlm-wb", 0, boolean, deprecated("ntlm-wb")},
	{"oauth2-bearer", 0, text, set(func(o *operation) *string { return &o.bearer })},
	{"output", 'o', file, (*parser).output},
	{"output-dir", 0, text, set(func(o *operation) *string { return &o.outputDir })},
	{"parallel", 'Z', boolean, everywhere(func(g *global) *bool { return &g.parallel })},
	{"parallel-immediate", 0, boolean, noEffect},
	{"parallel-max", 0, text, (*parser).parallelMax},
	{"pass", 0, text, setAny(func(o *operation) *string { return &o.keyPassword })},
	{"path-as-is", 0, boolean, flag(func(o *operation) *bool { return &o.pathAsIs })},
	{"pinnedpubkey", 0, text, nil},
	{"post301", 0, boolean, flag(func(o *operation) *bool { return &o.post301 })},
	{"post302", 0, boolean, flag(func(o *operation) *bool { return &o.post302 })},
	{"post303", 0, boolean, flag(func(o *operation) *bool { return &o.post303 })},
	{"preproxy", 0, text, nil},
	{"progress-bar", '#', boolean, noEffect},
	{"progress-meter", 0, boolean, noEffect},
	{"proto", 0, text, (*parser).proto},
	{"proto-default", 0, text, (*parser).protoDefault},
	{"proto-redir", 0, text, (*parser).protoRedir},
	{"proxy", 'x', text, (*parser).proxyURL},
	{"proxy-anyauth", 0, boolean, nil},
	{"proxy-basic", 0, boolean, noEffect},
	{"proxy-ca-native", 0, boolean, noEffect},
	{"proxy-cacert", 0, file, existing("proxy-cacert", func(o *operation) *string { return &o.proxyCAFile })},
	{"proxy-capath", 0, file, nil},
	{"proxy-cert", 0, file, nil},
	{"proxy-cert-type", 0, text, nil},
	{"proxy-ciphers", 0, text, nil},
	{"proxy-crlfile", 0, file, nil},
	{"proxy-digest", 0, boolean, nil},
	{"proxy-header", 0, text, (*parser).proxyHeader},
	{"proxy-http2", 0, boolean, nil},
	{"proxy-insecure", 0, boolean, flag(func(o *operation) *bool { return &o.proxyInsecure })},
	{"proxy-key", 0, file, nil},
	{"proxy-key-type", 0, text, nil},
	{"proxy-negotiate", 0, boolean, nil},
	{"proxy-ntlm", 0, boolean, nil},
	{"proxy-pass", 0, text, nil},
	{"proxy-pinnedpubkey", 0, text, nil},
	{"proxy-service-name", 0, text, noEffect},
	{"proxy-ssl-allow-beast", 0, boolean, noEffect},
	{"proxy-ssl-auto-client-cert", 0, boolean, noEffect},
	{"proxy-tls13-ciphers", 0, text, nil},
	{"proxy-tlsauthtype", 0, text, nil},
	{"proxy-tlspassword", 0, text, nil},
	{"proxy-tlsuser", 0, text, nil},
	{"proxy-tlsv1", 0, none, noEffect},
	{"proxy-user", 'U', text, setAny(func(o *operation) *string { return &o.proxyUser })},
	{"proxy1.0", 0, text, nil},
	{"proxytunnel", 'p', boolean, flag(func(o *operation) *bool { return &o.proxyTunnel })},
	{"pubkey", 0, text, noEffect},
	{"quote", 'Q', text, noEffect},
	{"random-file", 0, file, deprecated("random-file")},
	{"range", 'r', text, (*parser).byteRange},
	{"rate", 0, text, (*parser).rateLimit},
	{"raw", 0, boolean, nil},
	{"referer", 'e', text, (*parser).referer},
	{"remote-header-name", 'J', boolean, flag(func(o *operation) *bool { return &o.remoteHeaderName })},
	{"remote-name", 'O', boolean, (*parser).remoteName},
	{"remote-name-all", 0, boolean, flag(func(o *operation) *bool { return &o.remoteNameAll })},
	{"remote-time", 'R', boolean, flag(func(o *operation) *bool { return &o.remoteTime })},
	{"remove-on-error", 0, boolean, (*parser).removeOnError},
	{"request", 'X', text, set(func(o *operation) *string { return &o.method })},
	{"request-target", 0, text, set(func(o *operation) *string { return &o.requestTarget })},
	{"resolve", 0, text, (*parser).resolve},
	{"retry", 0, text, (*parser).retry},
	{"retry-all-errors", 0, boolean, flag(func(o *operation) *bool { return &o.retryAll })},
	{"retry-connrefused", 0, boolean, flag(func(o *operation) *bool { return &o.retryRefused })},
	{"retry-delay", 0, text, (*parser).retryDelay},
	{"retry-max-time", 0, text, (*parser).retryMaxTime},
	{"sasl-authzid", 0, text, noEffect},
	{"sasl-ir", 0, boolean, noEffect},
	{"service-name", 0, text, noEffect},
	{"sessionid", 0, boolean, noEffect},
	{"show-error", 'S', boolean, everywhere(func(g *global) *bool { return &g.showError })},
	{"show-headers", 'i', boolean, flag(func(o *operation) *bool { return &o.include })},
	{"silent", 's', boolean, everywhere(func(g *global) *bool { return &g.silent })},
	{"skip-existing", 0, boolean, flag(func(o *operation) *bool { return &o.skipExisting })},
	{"socks4", 0, text, nil},
	{"socks4a", 0, text, nil},
	{"socks5", 0, text, (*parser).socks5},
	{"socks5-basic", 0, boolean, noEffect},
	{"socks5-gssapi", 0, boolean, nil},
	{"socks5-gssapi-nec", 0, boolean, nil},
	{"socks5-gssapi-service", 0, text, nil},
	{"socks5-hostname", 0, text, (*parser).socks5Hostname},
	{"speed-limit", 'Y', text, (*parser).speedLimit},
	{"speed-time", 'y', text, (*parser).speedTime},
	{"ssl", 0, boolean, (*parser).insecureSSL},
	{"ssl-allow-beast", 0, boolean, noEffect},
	{"ssl-auto-client-cert", 0, boolean, noEffect},
	{"ssl-no-revoke", 0, boolean, noEffect},
	{"ssl-reqd", 0, boolean, noEffect},
	{"ssl-revoke-best-effort", 0, boolean, noEffect},
	{"ssl-sessions", 0, file, nil},
	{"sslv2", '2', none, noEffect},
	{"sslv3", '3', none, noEffect},
	{"stderr", 0, file, (*parser).stderrFile},
	{"styled-output", 0, boolean, noEffect},
	{"suppress-connect-headers", 0, boolean, flag(func(o *operation) *bool { return &o.noConnectHeaders })},
	{"tcp-fastopen", 0, boolean, noEffect},
	{"tcp-nodelay", 0, boolean, noEffect},
	{"telnet-option", 't', text, noEffect},
	{"tftp-blksize", 0, text, noEffect},
	{"tftp-no-options", 0, boolean, noEffect},
	{"time-cond", 'z', text, (*parser).timeCond},
	{"tls-earlydata", 0, boolean, noEffect},
	{"tls-max", 0, text, (*parser).tlsMax},
	{"tls13-ciphers", 0, text, nil},
	{"tlsauthtype", 0, text, nil},
	{"tlspassword", 0, text, nil},
	{"tlsuser", 0, text, nil},
	{"tlsv1", '1', none, (*parser).tls10},
	{"tlsv1.0", 0, none, (*parser).tls10},
	{"tlsv1.1", 0, none, (*parser).tls11},
	{"tlsv1.2", 0, none, (*parser).tls12},
	{"tlsv1.3", 0, none, (*parser).tls13},
	{"tr-encoding", 0, boolean, nil},
	{"trace", 0, file, nil},
	{"trace-ascii", 0, file, nil},
	{"trace-config", 0, text, noEffect},
	{"trace-ids", 0, boolean, noEffect},
	{"trace-time", 0, boolean, noEffect},
	{"unix-socket", 0, file, set(func(o *operation) *string { return &o.unixSocket })},
	{"upload-file", 'T', file, (*parser).uploadFile},
	{"upload-flags", 0, text, noEffect},
	{"url", 0, text, (*parser).url},
	{"url-query", 0, text, (*parser).urlQuery},
	{"use-ascii", 'B', boolean, noEffect},
	{"user", 'u', text, setAny(func(o *operation) *string { return &o.user })},
	{"user-agent", 'A', text, (*parser).userAgent},
	{"variable", 0, text, (*parser).variable},
	{"verbose", 'v', boolean, everywhere(func(g *global) *bool { return &g.verbose })},
	{"version", 'V', boolean, (*parser).version},
	{"vlan-priority", 0, text, nil},
	{"write-out", 'w', text, (*parser).writeOut},
	{"xattr", 0, boolean, noEffect},
}
