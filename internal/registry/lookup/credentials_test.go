// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func auth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

func configJSON(data string) *corev1.Secret {
	return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(data)}}
}

// TestFind follows k8s.io/kubernetes/pkg/credentialprovider TestURLsMatch and
// TestDockerKeyring*.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		location, repository string
		match                bool
	}{
		{"example.com", "example.com/a", true},
		{"https://example.com", "example.com/a", true},
		{"http://example.com/v1/", "example.com/a", true},
		{"https://example.com/v2/", "example.com/a", true},
		{"example.com/", "example.com/a", true},
		{"example.com/team", "example.com/team/app", true},
		{"example.com/v1/team", "example.com/team/app", true},
		{"example.com/team", "example.com/other/app", false},
		{"example.com:5000", "example.com:5000/a", true},
		{"example.com:5000", "example.com/a", false},
		{"example.com", "example.com:5000/a", false},
		{"*.example.com", "r.example.com/a", true},
		{"*.example.com", "example.com/a", false},
		{"*.example.com", "a.b.example.com/a", false},
		{"r[12].example.com", "r1.example.com/a", false},
		{"*.com", "example.com.evil/a", false},
		{"example.com", "example.com.evil/a", false},
		{"[", "example.com/a", false},
		{"", "example.com/a", false},
		{"https://index.docker.io/v1/", "docker.io/library/nginx", true},
		{"index.docker.io", "docker.io/library/nginx", true},
		{"docker.io", "docker.io/library/nginx", true},
		{"index.docker.io", "example.com/a", false},
	} {
		ring, _ := decodeSecret(configJSON(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, c.location, auth("u", "p"))))
		if got := ring.find(c.repository); (len(got) == 1) != c.match ||
			c.match && (got[0].Username != "u" || got[0].Password != "p") {
			t.Errorf("%s for %s: %d credentials", c.location, c.repository, len(got))
		}
	}
}

func TestMostSpecificFirst(t *testing.T) {
	ring, err := decodeSecret(
		configJSON(`{"auths":{"r.com":{"username":"all","password":"p"},"r.com/team/app":{"username":"app",` +
			`"password":"p"},"r.com/team":{"username":"team","password":"p"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	ring.sort()
	var got []string
	for _, a := range ring.find("r.com/team/app") {
		got = append(got, a.Username)
	}
	if d := cmp.Diff([]string{"app", "team", "all"}, got); d != "" {
		t.Error(d)
	}
}

func TestDecodeSecret(t *testing.T) {
	for name, c := range map[string]struct {
		secret *corev1.Secret
		want   error
	}{
		"dockercfg": {&corev1.Secret{Type: corev1.SecretTypeDockercfg,
			Data: map[string][]byte{corev1.DockerConfigKey: []byte(`{"r.com":{"auth":"dTpw"}}`)}}, nil},
		"unpadded":      {configJSON(`{"auths":{"r.com":{"auth":"dTpwcA"}}}`), nil},
		"empty":         {configJSON(``), errBadCredentials},
		"no registries": {configJSON(`{}`), errNoCredentials},
		"opaque":        {&corev1.Secret{Type: corev1.SecretTypeOpaque}, errNoCredentials},
		"not base64":    {configJSON(`{"auths":{"r.com":{"auth":"hunter2!"}}}`), errBadCredentials},
		"no colon":      {configJSON(`{"auths":{"r.com":{"auth":"aHVudGVyMg=="}}}`), errBadCredentials},
		"wrong types":   {configJSON(`{"auths":{"r.com":{"password":7}}}`), errBadCredentials},
		"too many":      {configJSON(`{"auths":{` + many() + `}}`), errBadCredentials},
	} {
		ring, err := decodeSecret(c.secret)
		if !errors.Is(err, c.want) || c.want == nil && len(ring) != 1 {
			t.Errorf("%s: %d credentials, error %v", name, len(ring), err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error quotes the secret", name)
		}
	}
}

func many() string {
	var out []string
	for i := range maxEntries + 1 {
		out = append(out, fmt.Sprintf(`"r%d":{}`, i))
	}
	return strings.Join(out, ",")
}

func FuzzSecret(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"}}}`), "docker.io/library/nginx")
	f.Add([]byte(`{"auths":{"*.example.com:5000/a":{"username":"u","password":"p","identitytoken":"i"}}}`),
		"r.example.com:5000/a/b")
	f.Add([]byte(`{"r.com":{"auth":"dTpw"}}`), "r.com/x")
	f.Add([]byte(`{"auths":{"[::1]:5000":{"auth":"dTpw"},"%zz":{},"":{}}}`), "[::1]:5000/x")
	f.Fuzz(func(t *testing.T, raw []byte, repository string) {
		for _, s := range []*corev1.Secret{
			configJSON(string(raw)),
			{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: raw}},
		} {
			ring, err := decodeSecret(s)
			if err != nil && len(ring) > 0 || len(ring) > maxEntries {
				t.Errorf("%d credentials, error %v", len(ring), err)
			}
			ring.sort()
			if got := ring.find(repository); len(got) > len(ring) {
				t.Errorf("%d of %d credentials", len(got), len(ring))
			}
		}
	})
}
