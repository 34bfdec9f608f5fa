// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A number of curl's: digits only, below 2³¹.
func parseNumber(s string) (int, error) {
	if strings.HasPrefix(s, "-") {
		if _, err := strconv.Atoi(s); err == nil {
			return 0, errNegative
		}
	}
	n, err := strconv.ParseUint(s, 10, 31)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errTooLarge
	case err != nil:
		return 0, errNumber
	}
	return int(n), nil
}

func parseSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || strings.Trim(s, "0123456789.") != "" {
		return 0, errNumber
	}
	if f > math.MaxInt64/float64(time.Second) {
		return 0, errTooLarge
	}
	return time.Duration(f * float64(time.Second)), nil
}

// parseSize reads a number of bytes with an optional unit.
func parseSize(s string) (int64, error) {
	if s == "" {
		return 0, errNumber
	}
	shift := 10 * (strings.IndexByte("bkmgtp", s[len(s)-1]|0x20))
	if shift >= 0 {
		s = s[:len(s)-1]
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil && strings.Trim(s, "0123456789.") == "":
		return 0, errNumber
	case err != nil || f < 0:
		return 0, errBadUse
	}
	f *= float64(int64(1) << max(shift, 0))
	if f >= math.MaxInt64 {
		return 0, errTooLarge
	}
	return int64(f), nil
}

func (p *parser) duration(value string, to *time.Duration) error {
	d, err := parseSeconds(value)
	if err == nil {
		*to = d
	}
	return err
}

func (p *parser) size(value string, to *int64) error {
	n, err := parseSize(value)
	if err == nil {
		*to = n
	}
	return err
}

func (p *parser) number(value string, to *int) error {
	n, err := parseNumber(value)
	if err == nil {
		*to = n
	}
	return err
}

func (p *parser) connectTimeout(value string, _ bool) error {
	return p.duration(value, &p.op.connectTimeout)
}
func (p *parser) maxTime(value string, _ bool) error { return p.duration(value, &p.op.maxTime) }
func (p *parser) expectTimeout(value string, _ bool) error {
	return p.duration(value, &p.op.expectTimeout)
}
func (p *parser) retry(value string, _ bool) error      { return p.number(value, &p.op.retries) }
func (p *parser) retryDelay(value string, _ bool) error { return p.duration(value, &p.op.retryDelay) }
func (p *parser) retryMaxTime(value string, _ bool) error {
	return p.duration(value, &p.op.retryMaxTime)
}
func (p *parser) limitRate(value string, _ bool) error   { return p.size(value, &p.op.limitRate) }
func (p *parser) maxFileSize(value string, _ bool) error { return p.size(value, &p.op.maxFileSize) }
func (p *parser) parallelMax(value string, _ bool) error {
	return p.number(value, &p.global.parallelMax)
}

func (p *parser) speedLimit(value string, _ bool) error {
	n, err := parseNumber(value)
	p.op.speedLimit = int64(n)
	p.op.speedTime = cmp.Or(p.op.speedTime, 30*time.Second)
	return err
}

func (p *parser) speedTime(value string, _ bool) error {
	n, err := parseNumber(value)
	p.op.speedTime = time.Duration(n) * time.Second
	p.op.speedLimit = cmp.Or(p.op.speedLimit, 1)
	return err
}

func (p *parser) maxRedirs(value string, _ bool) error {
	if value == "-1" {
		p.op.maxRedirs = math.MaxInt
		return nil
	}
	return p.number(value, &p.op.maxRedirs)
}

// rateLimit reads N[/UNIT], where the unit is s, m, h or d, and may have a count.
func (p *parser) rateLimit(value string, _ bool) error {
	count, unit, _ := strings.Cut(value, "/")
	n, err := parseNumber(count)
	if err != nil {
		return err
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	unit = cmp.Or(unit, "h")
	per, ok := units[unit[len(unit)-1]]
	if !ok {
		p.errorf("unsupported --rate unit")
		return errBadUse
	}
	if s := unit[:len(unit)-1]; s != "" {
		k, err := parseNumber(s)
		if err != nil {
			return err
		}
		per *= time.Duration(k)
	}
	if n < 1 {
		return errBadUse
	}
	p.interval = per / time.Duration(n)
	return nil
}

func (p *parser) basic(_ string, on bool) error  { return p.scheme(authBasic, on) }
func (p *parser) digest(_ string, on bool) error { return p.scheme(authDigest, on) }

func (p *parser) anyAuth(string, bool) error {
	p.op.auth = authBasic | authDigest
	return nil
}

func (p *parser) scheme(bit int, on bool) error {
	if on {
		p.op.auth |= bit
	} else {
		p.op.auth &^= bit
	}
	return nil
}

// certificate reads FILE[:PASSWORD]; a colon of a drive belongs to the name.
func (p *parser) certificate(value string, _ bool) error {
	if value == "" {
		return errBlank
	}
	var name strings.Builder
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && i+1 < len(value) && (value[i+1] == '\\' || value[i+1] == ':'):
			i++
			name.WriteByte(value[i])
		case c == ':' && (i != 1 || i+1 == len(value) || strings.IndexByte(`\/`, value[i+1]) < 0):
			p.op.certFile, p.op.keyPassword = name.String(), value[i+1:]
			return nil
		default:
			name.WriteByte(c)
		}
	}
	p.op.certFile = name.String()
	return nil
}

// certificateType refuses what Go's library does not read.
func (p *parser) certificateType(value string, _ bool) error {
	if !strings.EqualFold(value, "PEM") {
		return errNotBuilt
	}
	return nil
}

func (p *parser) clobber(_ string, on bool) error {
	if p.op.resume && !on {
		p.errorf("--continue-at is mutually exclusive with --no-clobber")
		return errBadUse
	}
	p.op.clobber, p.op.noClobber = on, !on
	return nil
}

func (p *parser) removeOnError(_ string, on bool) error {
	if p.op.resume && on {
		p.errorf("--continue-at is mutually exclusive with --remove-on-error")
		return errBadUse
	}
	p.op.removeOnError = on
	return nil
}

func (p *parser) continueAt(value string, _ bool) error {
	for _, other := range []struct {
		set  bool
		name string
	}{{p.op.byteRange != "", "range"}, {p.op.removeOnError, "remove-on-error"}, {p.op.noClobber, "no-clobber"}} {
		if other.set {
			p.errorf("--continue-at is mutually exclusive with --%s", other.name)
			return errBadUse
		}
	}
	p.op.resume = true
	if value == "-" {
		p.op.resumeHere = true
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return errNumber
	}
	p.op.resumeFrom, p.op.resumeHere = n, false
	return nil
}

func (p *parser) byteRange(value string, _ bool) error {
	if p.op.resume {
		p.errorf("--continue-at is mutually exclusive with --range")
		return errBadUse
	}
	if value == "" {
		return errBlank
	}
	if strings.Trim(value, "0123456789") == "" {
		p.warnf("A specified range MUST include at least one dash (-). Appending one for you")
		value += "-"
	} else if strings.Trim(value, "0123456789-,") != "" {
		p.warnf("Invalid character is found in given range. A specified range MUST have only digits in " +
			"'start'-'stop'. The server's response to this request is uncertain.")
	}
	p.op.byteRange = value
	return nil
}

// cookie reads --cookie: pairs, or the name of a file.
func (p *parser) cookie(value string, _ bool) error {
	switch name, isFile := strings.CutPrefix(value, "@"); {
	case isFile:
		p.op.cookieFiles = append(p.op.cookieFiles, name)
	case strings.Contains(value, "="):
		p.op.cookies = append(p.op.cookies, value)
		return nil
	default:
		p.op.cookieFiles = append(p.op.cookieFiles, value)
	}
	p.op.useCookies = true
	return nil
}

func (p *parser) failNoBody(_ string, on bool) error {
	if on && p.op.failBody {
		p.warnf("--fail deselects --fail-with-body here")
	}
	p.op.fail, p.op.failBody = on, false
	return nil
}

func (p *parser) failBody(_ string, on bool) error {
	if on && p.op.fail {
		p.warnf("--fail-with-body deselects --fail here")
	}
	p.op.failBody, p.op.fail = on, false
	return nil
}

func (p *parser) insecureSSL(_ string, on bool) error {
	if on {
		p.warnf("--ssl is an insecure option, consider --ssl-reqd instead")
	}
	return nil
}

func (p *parser) head(_ string, on bool) error {
	p.op.head, p.op.include = on, on
	return nil
}

func (p *parser) header(value string, _ bool) error {
	return p.addHeaders(&p.op.headers, value, "HTTP")
}

func (p *parser) proxyHeader(value string, _ bool) error {
	return p.addHeaders(&p.op.proxyHeaders, value, "proxy")
}

func (p *parser) addHeaders(to *[]string, value, what string) error {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		if !strings.ContainsAny(value, ":;") {
			p.warnf("The provided %s header '%s' does not look like a header?", what, value)
		}
		*to = append(*to, value)
		return nil
	}
	data, err := p.read(name)
	if err != nil {
		p.errorf("Failed to open %s", name)
		return errRead
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
			*to = append(*to, line)
		}
	}
	return nil
}

func (p *parser) http10(string, bool) error { p.op.http10 = true; return nil }
func (p *parser) http11(string, bool) error { p.op.http10 = false; return nil }
func (p *parser) ipv4(string, bool) error   { p.op.network = "tcp4"; return nil }
func (p *parser) ipv6(string, bool) error   { p.op.network = "tcp6"; return nil }

func (p *parser) location(_ string, on bool) error { p.op.follow = on; return nil }

func (p *parser) locationTrusted(_ string, on bool) error {
	p.op.follow, p.op.keepAuth = on, on
	return nil
}

func (p *parser) nextOperation(string, bool) error {
	if !p.op.hasURL() {
		p.errorf("missing URL before --next")
		return errBadUse
	}
	p.next()
	return nil
}

func (p *parser) noProxyFor(value string, _ bool) error {
	p.op.noProxy, p.op.hasNoProxy = value, true
	return nil
}

func (p *parser) proxyURL(value string, _ bool) error {
	p.op.proxy, p.op.hasProxy = value, true
	return nil
}

func (p *parser) socks5(value string, _ bool) error { return p.proxyURL("socks5://"+value, true) }

func (p *parser) socks5Hostname(value string, _ bool) error {
	return p.proxyURL("socks5h://"+value, true)
}

func (p *parser) referer(value string, _ bool) error {
	p.op.referer, p.op.autoReferer = strings.CutSuffix(value, ";auto")
	return nil
}

func (p *parser) userAgent(value string, _ bool) error {
	p.op.userAgent, p.op.noAgent = value, value == ""
	return nil
}

func (p *parser) resolve(value string, _ bool) error {
	p.op.resolves = append(p.op.resolves, value)
	return nil
}

func (p *parser) connectTo(value string, _ bool) error {
	p.op.connects = append(p.op.connects, value)
	return nil
}

func (p *parser) tls10(string, bool) error { return p.minTLS(tls.VersionTLS10) }
func (p *parser) tls11(string, bool) error { return p.minTLS(tls.VersionTLS11) }
func (p *parser) tls12(string, bool) error { return p.minTLS(tls.VersionTLS12) }
func (p *parser) tls13(string, bool) error { return p.minTLS(tls.VersionTLS13) }

func (p *parser) minTLS(v uint16) error { p.op.minTLS = v; return nil }

func (p *parser) tlsMax(value string, _ bool) error {
	versions := map[string]uint16{
		"default": 0,
		"1.0":     tls.VersionTLS10,
		"1.1":     tls.VersionTLS11,
		"1.2":     tls.VersionTLS12,
		"1.3":     tls.VersionTLS13,
	}
	v, ok := versions[value]
	if !ok {
		return errBadUse
	}
	p.op.maxTLS = v
	return nil
}

func (p *parser) timeCond(value string, _ bool) error {
	p.op.timeCond = '+'
	if value != "" && strings.IndexByte("+-=", value[0]) >= 0 {
		p.op.timeCond, value = value[0], value[1:]
	}
	if t, err := parseDate(value); err == nil {
		p.op.condTime = t
	} else if info, err := os.Stat(value); err == nil {
		p.op.condTime = info.ModTime()
	} else {
		p.op.timeCond = 0
		p.warnf("Illegal date format for -z, --time-cond (and not a file name). Disabling time condition. " +
			"See curl_getdate(3) for valid date syntax.")
	}
	return nil
}

// parseDate reads the common ones of the formats that curl_getdate(3) lists.
func parseDate(s string) (time.Time, error) {
	for _, layout := range []string{
		"20060102", "20060102 15:04:05", "02 Jan 2006", "2 Jan 2006",
		"02 Jan 2006 15:04:05", "Jan 2 2006", "Jan 2 2006 15:04:05", "Mon, 2 Jan 2006 15:04:05 -0700",
		"2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006", time.RFC3339, "20060102T15:04:05",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return http.ParseTime(s)
}

// Protocols that URLs may name: those of Windows' curl. The first three work.
var protocols = []string{"http", "https", "file", "ftp", "ftps"}

// windowsProtocols are those that --proto knows besides.
var windowsProtocols = append(slices.Clone(protocols), "dict", "imap", "imaps", "ipfs", "ipns", "mqtt", "pop3", "pop3s",
	"smb", "smbs", "smtp", "smtps", "telnet", "tftp", "ws", "wss")

func (p *parser) proto(value string, _ bool) error { return p.protoSet(value, &p.op.proto) }

func (p *parser) protoRedir(value string, _ bool) error { return p.protoSet(value, &p.op.protoRedir) }

func (p *parser) protoSet(value string, to *[]string) error {
	allowed := slices.Clone(*to)
	for name := range strings.SplitSeq(value, ",") {
		if name == "" {
			continue
		}
		mode := byte('+')
		if strings.IndexByte("=+-", name[0]) >= 0 {
			mode, name = name[0], name[1:]
		}
		name = strings.ToLower(name)
		chosen := []string{name}
		if name == "all" {
			chosen = windowsProtocols
		} else if !slices.Contains(windowsProtocols, name) {
			p.warnf("unrecognized protocol '%s'", name)
			chosen = nil
		}
		switch mode {
		case '=':
			allowed = slices.Clone(chosen)
		case '+':
			allowed = append(allowed, chosen...)
		default:
			allowed = slices.DeleteFunc(allowed, func(n string) bool { return slices.Contains(chosen, n) })
		}
	}
	*to = allowed
	return nil
}

func (p *parser) protoDefault(value string, _ bool) error {
	if !slices.Contains(windowsProtocols, strings.ToLower(value)) {
		return errNoProtocol
	}
	p.op.protoDefault = strings.ToLower(value)
	return nil
}

func (p *parser) output(value string, _ bool) error {
	if value == "" {
		return errBlank
	}
	n := p.op.fill(func(n *node) bool { return !n.hasOutput })
	n.output, n.hasOutput, n.remoteName = value, true, false
	return nil
}

func (p *parser) remoteName(_ string, on bool) error {
	if !on && !p.op.remoteNameAll {
		return nil
	}
	n := p.op.fill(func(n *node) bool { return !n.hasOutput })
	n.output, n.hasOutput, n.remoteName = "", true, on
	return nil
}

func (p *parser) uploadFile(value string, _ bool) error {
	n := p.op.fill(func(n *node) bool { return !n.hasUpload })
	n.upload, n.hasUpload, n.emptyBody = value, true, value == ""
	return nil
}

func (p *parser) url(value string, _ bool) error {
	if value == "" {
		return errBlank
	}
	n := p.op.fill(func(n *node) bool { return !n.hasURL })
	n.url, n.hasURL = value, true
	count := 0
	for _, n := range p.op.nodes {
		if n.hasURL {
			count++
		}
	}
	if count > 1 && (p.op.etagSave != "" || p.op.etagCompare != "") {
		p.errorf("The etag options only work on a single URL")
		return errBadUse
	}
	return nil
}

func (p *parser) urlQuery(value string, _ bool) error {
	query, literal := strings.CutPrefix(value, "+")
	if !literal {
		encoded, err := p.urlEncoded(value)
		if err != nil {
			return err
		}
		query = string(encoded)
	}
	if p.op.urlQuery != "" {
		query = p.op.urlQuery + "&" + query
	}
	p.op.urlQuery = query
	return nil
}

func (p *parser) stderrFile(value string, _ bool) error {
	if value == "-" {
		p.errs = p.env.Stdout
		return nil
	}
	f, err := os.Create(value)
	if err != nil {
		p.warnf("Failed to open %s", value)
		return nil
	}
	p.errs = f
	p.closers = append(p.closers, f)
	return nil
}

func (p *parser) writeOut(value string, _ bool) error {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		p.op.writeOut = value
		return nil
	}
	data, err := p.read(name)
	if err != nil {
		p.errorf("Failed to open %s", name)
		return errRead
	}
	p.op.writeOut = string(dropLineEnds(data))
	return nil
}

// dropLineEnds removes what file2string of src/tool_paramhlp.c removes.
func dropLineEnds(data []byte) []byte {
	return slices.DeleteFunc(bytes.Clone(data), func(c byte) bool { return c == '\r' || c == '\n' || c == 0 })
}

func (p *parser) manual(_ string, on bool) error {
	if !on {
		return nil
	}
	p.warnf("built-in manual was disabled at build-time")
	return errManual
}

func (p *parser) version(_ string, on bool) error {
	if !on {
		return nil
	}
	return errVersion
}

// printVersion prints what Windows' curl prints, with the protocols and features
// that this one has.
func (p *parser) printVersion() {
	_, _ = io.WriteString(p.out, "curl "+version+" (Windows) libcurl/"+version+" Schannel zlib/1.3.1 WinIDN\n"+
		"Release-Date: 2025-04-02\nProtocols: file http https\n"+
		"Features: AsynchDNS HTTPS-proxy IPv6 Largefile libz SSL threadsafe Unicode UnixSockets\n")
}
