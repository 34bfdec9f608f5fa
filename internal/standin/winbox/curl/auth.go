// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"crypto/md5" //nolint:gosec // RFC 7616 has it
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
)

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// challenge returns the parameters of a scheme in WWW-Authenticate headers.
func challenge(headers []string, scheme string) (map[string]string, bool) {
	for _, h := range headers {
		name, rest, _ := strings.Cut(strings.TrimSpace(h), " ")
		if !strings.EqualFold(name, scheme) {
			continue
		}
		params := map[string]string{}
		for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimLeft(rest, ", ") {
			key, after, ok := strings.Cut(rest, "=")
			if !ok {
				break
			}
			var value string
			value, rest = word(after, ",")
			params[strings.ToLower(strings.TrimSpace(key))] = value
		}
		return params, true
	}
	return nil, false
}

// digestAuth answers a challenge: RFC 7616, with MD5 and SHA-256.
func digestAuth(params map[string]string, user, password, method, uri string) (string, bool) {
	algorithm, session := strings.CutSuffix(strings.ToUpper(params["algorithm"]), "-SESS")
	var sum func() hash.Hash
	switch algorithm {
	case "", "MD5":
		sum = md5.New
	case "SHA-256":
		sum = sha256.New
	default:
		return "", false
	}
	h := func(s string) string {
		d := sum()
		_, _ = d.Write([]byte(s)) // a hash never fails
		return fmt.Sprintf("%x", d.Sum(nil))
	}
	nonce, client, count := params["nonce"], rand.Text(), "00000001"
	ha1 := h(user + ":" + params["realm"] + ":" + password)
	if session {
		ha1 = h(ha1 + ":" + nonce + ":" + client)
	}
	ha2 := h(method + ":" + uri)
	var b strings.Builder
	fmt.Fprintf(&b, `Digest username="%s", realm="%s", nonce="%s", uri="%s"`, user, params["realm"], nonce, uri)
	if strings.Contains(params["qop"], "auth") {
		answer := h(strings.Join([]string{ha1, nonce, count, client, "auth", ha2}, ":"))
		fmt.Fprintf(&b, `, cnonce="%s", nc=%s, qop=auth, response="%s"`, client, count, answer)
	} else {
		fmt.Fprintf(&b, `, response="%s"`, h(ha1+":"+nonce+":"+ha2))
	}
	if opaque, ok := params["opaque"]; ok {
		fmt.Fprintf(&b, `, opaque="%s"`, opaque)
	}
	if params["algorithm"] != "" {
		fmt.Fprintf(&b, ", algorithm=%s", params["algorithm"])
	}
	return b.String(), true
}

// netrcLogin returns what a netrc file says about a host.
func (c *client) netrcLogin(host, wantUser string) (user, password string, ok bool) {
	names := []string{c.o.netrcFile}
	if c.o.netrcFile == "" {
		names = nil
		for _, v := range []string{"HOME", "USERPROFILE"} {
			if dir := c.g.env.Getenv(v); dir != "" {
				names = append(names, filepath.Join(dir, ".netrc"), filepath.Join(dir, "_netrc"))
			}
		}
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err == nil {
			return parseNetrc(string(data), host, wantUser)
		}
	}
	return "", "", false
}

// parseNetrc finds the entry of a host, or the default one.
func parseNetrc(data, host, wantUser string) (user, password string, ok bool) {
	words := strings.Fields(data)
	here, login, secret := false, "", ""
	found := func() bool { return here && (login != "" || secret != "") && (wantUser == "" || login == wantUser) }
	for i := 0; i < len(words); i++ {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch words[i] {
		case "machine", "default":
			if found() {
				return login, secret, true
			}
			here, login, secret = words[i] == "default" || strings.EqualFold(next, host), "", ""
			if words[i] == "machine" {
				i++
			}
		case "login":
			login = strings.Trim(next, `"`)
			i++
		case "password":
			secret = strings.Trim(next, `"`)
			i++
		case "account":
			i++
		}
	}
	return login, secret, found()
}
