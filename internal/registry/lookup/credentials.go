// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxSecrets bounds the Secrets that are read for one image.
	maxSecrets = 8
	// maxEntries bounds the registries of one Secret.
	maxEntries = 256
)

// puller identifies the credentials that a kubelet would use to pull an image.
type puller struct {
	namespace, account string
	secrets            string // names, with "\n" between them, as a map's key can have them
}

func newPuller(namespace, account string, secrets []string) puller {
	return puller{namespace, account, strings.Join(secrets[:min(len(secrets), maxSecrets)], "\n")}
}

// keyring reads the credentials. It ignores Secrets that do not exist, may not
// be read or are malformed, as a node does. They are not cached.
func (p puller) keyring(ctx context.Context, client kubernetes.Interface) keyring {
	names := strings.Split(p.secrets, "\n")
	if p.secrets == "" {
		names = p.accountSecrets(ctx, client)
	}
	var out keyring
	for _, name := range names {
		s, err := client.CoreV1().Secrets(p.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			continue
		}
		entries, err := decodeSecret(s)
		if err != nil {
			continue
		}
		out = append(out, entries...)
	}
	out.sort()
	return out
}

// accountSecrets returns the secrets of the service account, which a pod gets
// if it does not name any (k8s.io/kubernetes
// plugin/pkg/admission/serviceaccount).
func (p puller) accountSecrets(ctx context.Context, client kubernetes.Interface) []string {
	account := cmp.Or(p.account, "default")
	sa, err := client.CoreV1().ServiceAccounts(p.namespace).Get(ctx, account, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range sa.ImagePullSecrets {
		if s.Name != "" && len(names) < maxSecrets {
			names = append(names, s.Name)
		}
	}
	return names
}

// keyring holds credentials, most specific first. It matches images as
// k8s.io/kubernetes/pkg/credentialprovider does, which is too large to link;
// see docs/internals/facts.md.
type keyring []credential

// credential is one entry of a Secret. It has no String method and is never
// logged.
type credential struct {
	location string // host, port and path: "registry.example.com:5000/team"; the host may have *
	auth     authn.AuthConfig
}

func (k keyring) sort() {
	slices.SortStableFunc(k, func(a, b credential) int { return strings.Compare(b.location, a.location) })
}

// find returns the credentials for a repository, "docker.io/library/nginx".
func (k keyring) find(repository string) []authn.AuthConfig {
	var out []authn.AuthConfig
	for _, c := range k {
		if covers(c.location, repository) {
			out = append(out, c.auth)
		}
	}
	if _, hub := strings.CutPrefix(repository, "docker.io/"); len(out) > 0 || !hub {
		return out
	}
	for _, c := range k {
		if c.location == "index.docker.io" {
			out = append(out, c.auth)
		}
	}
	return out
}

// covers reports whether credentials for a location are for a repository: equal
// ports, the location's path a prefix, each part of the host matched.
func covers(location, repository string) bool {
	glob, err := url.Parse("https://" + location)
	if err != nil {
		return false
	}
	target, err := url.Parse("https://" + repository)
	if err != nil {
		return false
	}
	globParts, globPort := splitHost(glob.Host)
	parts, port := splitHost(target.Host)
	if globPort != port || len(globParts) != len(parts) || !strings.HasPrefix(target.Path, glob.Path) {
		return false
	}
	for i, g := range globParts {
		if ok, err := path.Match(g, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func splitHost(s string) (parts []string, port string) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = s, ""
	}
	return strings.Split(host, "."), port
}

var (
	errNoCredentials = errors.New("the Secret has no credentials of a registry")
	// The cause could quote the secret.
	errBadCredentials = errors.New("the credentials in the Secret cannot be read")
)

// decodeSecret reads a Secret of either type that image pulls use.
func decodeSecret(s *corev1.Secret) (keyring, error) {
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]dockerEntry `json:"auths"`
		}
		if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &config) != nil {
			return nil, errBadCredentials
		}
		return decodeEntries(config.Auths)
	case corev1.SecretTypeDockercfg:
		var auths map[string]dockerEntry
		if json.Unmarshal(s.Data[corev1.DockerConfigKey], &auths) != nil {
			return nil, errBadCredentials
		}
		return decodeEntries(auths)
	}
	return nil, errNoCredentials
}

// dockerEntry is the entry that Docker writes for one registry.
type dockerEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of user:password; goes before the two
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func decodeEntries(auths map[string]dockerEntry) (keyring, error) {
	if len(auths) == 0 {
		return nil, errNoCredentials
	}
	if len(auths) > maxEntries {
		return nil, errBadCredentials
	}
	var out keyring
	for where, e := range auths {
		location, ok := decodeLocation(where)
		if !ok {
			continue
		}
		auth := authn.AuthConfig{
			Username:      e.Username,
			Password:      e.Password,
			IdentityToken: e.IdentityToken,
			RegistryToken: e.RegistryToken,
		}
		if e.Auth != "" {
			raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(e.Auth), "="))
			if err != nil {
				return nil, errBadCredentials
			}
			if auth.Username, auth.Password, ok = strings.Cut(string(raw), ":"); !ok {
				return nil, errBadCredentials
			}
		}
		out = append(out, credential{location, auth})
	}
	return out, nil
}

// decodeLocation returns the key of an entry without the scheme and the version
// of the API: "https://index.docker.io/v1/" is "index.docker.io".
func decodeLocation(s string) (string, bool) {
	if !strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "http://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "", false
	}
	where := u.Path
	if strings.HasPrefix(where, "/v1/") || strings.HasPrefix(where, "/v2/") {
		where = where[3:]
	}
	if where == "/" {
		where = ""
	}
	return u.Host + where, true
}
