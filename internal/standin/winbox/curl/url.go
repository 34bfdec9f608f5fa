// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// address is a URL in parts, as lib/urlapi.c divides it: more leniently than
// net/url does, and without changing what is sent.
type address struct {
	scheme, user, password, host, zone, port string
	path, query, fragment                    string
	hasUser, hasQuery, hasFragment           bool
}

// rejected are the mistakes in URLs: lib/strerror.c, curl_url_strerror.
func rejected(what string) error { return fail(exitMalformed, "URL rejected: %s", what) }

const (
	malformedInput = "Malformed input to a URL function"
	noHostPart     = "No host part in the URL"
	badPort        = "Port number was not a decimal number between 0 and 65535"
	badHost        = "Bad hostname"
)

// parseURL divides a URL. One without a scheme is HTTP, or what the host's name
// suggests, unless --proto-default says otherwise.
func parseURL(s, defaultScheme string, pathAsIs bool) (*address, error) {
	s = strings.TrimSpace(s)
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, rejected(malformedInput)
	}
	u := &address{}
	scheme, rest, ok := strings.Cut(s, "://")
	if ok && isScheme(scheme) {
		u.scheme = strings.ToLower(scheme)
	} else {
		u.scheme, rest = defaultScheme, s
	}
	rest, u.fragment, u.hasFragment = strings.Cut(rest, "#")
	rest, u.query, u.hasQuery = strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if u.scheme == "file" {
		return u, u.setFile(rest)
	}
	if err := u.setAuthority(authority); err != nil {
		return nil, err
	}
	if !ok && defaultScheme == "" {
		u.scheme = guessScheme(u.host)
	}
	if path == "" {
		path = "/"
	}
	if !pathAsIs {
		path = removeDots(path)
	}
	u.path = path
	return u, nil
}

func isScheme(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789+-.") == ""
}

// guessScheme: lib/urlapi.c, guess_scheme.
func guessScheme(host string) string {
	for _, s := range []string{"ftp", "dict", "ldap", "imap", "smtp", "pop3"} {
		if strings.HasPrefix(strings.ToLower(host), s+".") {
			return s
		}
	}
	return "http"
}

// setFile takes file:///C:/x, file://localhost/x and file:/x.
func (u *address) setFile(rest string) error {
	host, path, ok := strings.Cut(rest, "/")
	if !ok || host != "" && !strings.EqualFold(host, "localhost") && host != "127.0.0.1" {
		return rejected("Bad file:// URL")
	}
	u.path = "/" + path
	return nil
}

func (u *address) setAuthority(authority string) error {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		u.user, u.password, _ = strings.Cut(authority[:i], ":")
		u.user, u.password, u.hasUser = unescape(u.user), unescape(u.password), true
		authority = authority[i+1:]
	}
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i >= 0 && i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i+1:]
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return rejected(badPort)
		}
		port = strconv.Itoa(int(n))
	}
	u.port = port
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		inside, u.zone, _ = strings.Cut(inside, "%")
		u.zone = strings.TrimPrefix(u.zone, "25")
		if _, err := netip.ParseAddr(inside); err != nil || !ok {
			return rejected("Bad IPv6 address")
		}
		u.host = inside
		return nil
	}
	if host == "" {
		return rejected(noHostPart)
	}
	if strings.ContainsAny(host, " \r\n\t/:#?!@{}[]\\$'\"^`*<>=;,+&()|%") {
		return rejected(badHost)
	}
	u.host = host
	return nil
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// removeDots removes "." and ".." from a path: RFC 3986 section 5.2.4.
func removeDots(path string) string {
	segments := strings.Split(path, "/")
	var out []string
	for i, s := range segments[1:] {
		last := i == len(segments)-2
		switch s {
		case ".":
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/")
}

// hostPort returns the address to connect to.
func (u *address) hostPort() string {
	host := u.host
	if u.zone != "" {
		host += "%" + u.zone
	}
	return net.JoinHostPort(host, u.realPort())
}

func (u *address) realPort() string {
	switch {
	case u.port != "":
		return u.port
	case u.scheme == "https":
		return "443"
	}
	return "80"
}

// hostHeader is the value of the Host header.
func (u *address) hostHeader() string {
	host := u.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p := u.realPort(); p != (&address{scheme: u.scheme}).realPort() {
		host += ":" + p
	}
	return host
}

// target returns the path and query of the first line of a request.
func (u *address) target() string {
	if u.hasQuery {
		return u.path + "?" + u.query
	}
	return u.path
}

// String returns the URL, with its credentials.
func (u *address) String() string {
	if u.scheme == "file" {
		return "file://" + u.path
	}
	var b strings.Builder
	b.WriteString(u.scheme + "://")
	if u.hasUser {
		b.WriteString(escape(u.user, "%20"))
		if u.password != "" {
			b.WriteString(":" + escape(u.password, "%20"))
		}
		b.WriteString("@")
	}
	host := u.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	b.WriteString(host)
	if u.port != "" {
		b.WriteString(":" + u.port)
	}
	b.WriteString(u.target())
	if u.hasFragment {
		b.WriteString("#" + u.fragment)
	}
	return b.String()
}

// resolveReference returns where a Location header leads.
func (u *address) resolveReference(location string) (*address, error) {
	location = strings.ReplaceAll(strings.TrimSpace(location), " ", "%20")
	scheme, _, ok := strings.Cut(location, "://")
	if ok && isScheme(scheme) {
		return parseURL(location, "", false)
	}
	next := *u
	next.fragment, next.hasFragment = "", false
	switch {
	case strings.HasPrefix(location, "//"):
		return parseURL(u.scheme+":"+location, "", false)
	case location == "" || location[0] == '#':
		return &next, nil
	}
	location, next.fragment, next.hasFragment = strings.Cut(location, "#")
	path, query, hasQuery := strings.Cut(location, "?")
	next.query, next.hasQuery = query, hasQuery
	switch {
	case strings.HasPrefix(path, "/"):
		next.path = removeDots(path)
	case path != "":
		next.path = removeDots(u.path[:strings.LastIndexByte(u.path, '/')+1] + path)
	}
	return &next, nil
}

// sameOrigin reports whether credentials for one URL may be sent to another.
func (u *address) sameOrigin(v *address) bool {
	return strings.EqualFold(u.host, v.host) && u.realPort() == v.realPort() && u.scheme == v.scheme
}

// checkProtocol refuses URLs that are not for this curl.
func checkProtocol(u *address, allowed []string) error {
	switch {
	case !slices.Contains([]string{"http", "https", "file"}, u.scheme):
		return fail(exitUnsupported, "Protocol %q not supported", u.scheme)
	case !slices.Contains(allowed, u.scheme):
		return fail(exitUnsupported, "Protocol %q disabled", u.scheme)
	}
	return nil
}

// remoteFileName is the name that --remote-name takes from a URL.
func (u *address) remoteFileName() string {
	path := strings.ReplaceAll(u.path, `\`, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	if name == "" {
		path = strings.TrimSuffix(path, "/")
		name = path[strings.LastIndexByte(path, '/')+1:]
	}
	return sanitize(name)
}

// device matches the names of devices, which no file can have.
var device = regexp.MustCompile(`^(CON|PRN|AUX|NUL|(COM|LPT)[1-9])$`)

// sanitize replaces what file names of Windows must not hold: src/tool_doswin.c.
func sanitize(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`|<>/\":?*`, r) {
			return '_'
		}
		return r
	}, name)
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	if device.MatchString(base) {
		name = "_" + name
	}
	return strings.TrimRight(name, ". ")
}
