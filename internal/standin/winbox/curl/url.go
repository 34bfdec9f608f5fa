// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// rejected is a mistake in a URL: lib/strerror.c, curl_url_strerror.
func rejected(text string) error { return fail(exitMalformed, "URL rejected: %s", text) }

// literal matches the parts of a URL whose brackets stand for themselves: an IPv6
// address, and the name of an array in a query.
var literal = regexp.MustCompile(`^([A-Za-z]+://)?([^/]*@)?\[[^/\]]*\]|\[\]`)

// parseURL reads a URL. One without a scheme is HTTP. Patterns are refused
// unless globOff makes them text.
func parseURL(s string, globOff bool) (*url.URL, error) {
	s = strings.TrimSpace(s)
	if !globOff && strings.ContainsAny(literal.ReplaceAllString(s, ""), "{}[]") {
		return nil, fail(exitMalformed, "mullion's curl does not expand patterns in URLs: -g takes %s as it is", s)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, rejected("Malformed input to a URL function")
	}
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	switch {
	case err != nil && strings.Contains(err.Error(), "invalid port"), err == nil && !validPort(u.Port()):
		return nil, rejected("Port number was not a decimal number between 0 and 65535")
	case err != nil:
		return nil, rejected("Malformed input to a URL function")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fail(exitUnsupported, "Protocol %q not supported", u.Scheme)
	case u.Hostname() == "":
		return nil, rejected("No host part in the URL")
	}
	u.Path = cmp.Or(u.Path, "/")
	return (&url.URL{}).ResolveReference(u), nil // without "." and ".."
}

func validPort(s string) bool {
	_, err := strconv.ParseUint(cmp.Or(s, "0"), 10, 16)
	return err == nil
}

// port returns the port of a URL, or its scheme's.
func port(u *url.URL) string {
	if u.Scheme == "https" {
		return cmp.Or(u.Port(), "443")
	}
	return cmp.Or(u.Port(), "80")
}

// hostHeader is the value of the header Host.
func hostHeader(u *url.URL) string {
	name, _, _ := strings.Cut(u.Hostname(), "%") // a zone is the client's own
	host := strings.TrimSuffix(net.JoinHostPort(name, ""), ":")
	if port(u) == port(&url.URL{Scheme: u.Scheme}) {
		return host
	}
	return host + ":" + port(u)
}

// sameOrigin reports whether credentials for one URL may be sent to another.
func sameOrigin(u, v *url.URL) bool {
	return strings.EqualFold(u.Hostname(), v.Hostname()) && port(u) == port(v) && u.Scheme == v.Scheme
}

// remoteFileName is the name that --remote-name takes from a URL.
func remoteFileName(u *url.URL) string {
	path := strings.TrimSuffix(strings.ReplaceAll(u.EscapedPath(), `\`, "/"), "/")
	name := strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`|<>":?*`, r) {
			return '_' // src/tool_doswin.c
		}
		return r
	}, path[strings.LastIndexByte(path, '/')+1:])
	return cmp.Or(strings.TrimRight(name, ". "), "curl_response")
}
