// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pki

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// marker is the file whose existence means that the keys may be in use.
const marker = "initialised"

// Store is a directory of key material.
type Store struct {
	Dir string
	Now func() time.Time
	Log *slog.Logger
}

// Cert returns the file of an authority's certificate.
func (s Store) Cert(authority string) string { return filepath.Join(s.Dir, authority+".crt") }

// Key returns the file of an authority's or a bare key.
func (s Store) Key(name string) string { return filepath.Join(s.Dir, name+".key") }

// Public returns the file of the public half of a bare key.
func (s Store) Public(name string) string { return filepath.Join(s.Dir, name+".pub") }

// Leaf returns the file with a leaf's certificate and key.
func (s Store) Leaf(name string) string { return filepath.Join(s.Dir, name+".pem") }

// Secret returns the file of an encryption configuration.
func (s Store) Secret(name string) string { return filepath.Join(s.Dir, name+".json") }

// Ensure makes the directory agree with the plan and names the leaves that it
// has made or replaced. It is safe to be killed at any moment.
// Preconditions: the caller holds the lock of the data directory.
func (s Store) Ensure(p Plan) (changed []string, err error) {
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("prepare key directory: %w", err)
	}
	_, err = os.Stat(filepath.Join(s.Dir, marker))
	used := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("prepare key directory: %w", err)
	}
	cas := map[string]pair{}
	for _, a := range p.Authorities {
		ca, err := s.authority(a, used)
		if err != nil {
			return nil, err
		}
		cas[a.Name] = ca
	}
	for _, k := range p.Keys {
		if err := s.bareKey(k, used); err != nil {
			return nil, err
		}
	}
	for _, x := range p.Secrets {
		if err := s.secret(x, used); err != nil {
			return nil, err
		}
	}
	for _, l := range p.Leaves {
		replaced, err := s.leaf(l, cas[l.Authority])
		if err != nil {
			return changed, err
		}
		if replaced {
			changed = append(changed, l.Name)
		}
	}
	if !used {
		return changed, durable.WriteFile(filepath.Join(s.Dir, marker), nil, 0o600)
	}
	return changed, nil
}

// prepare makes the directory, removes the remains of a killed process from it, and
// revokes rights that others should not have (a restored backup may).
func (s Store) prepare() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	st, err := os.Lstat(s.Dir)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is not a directory", s.Dir)
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	if err := s.tighten(s.Dir, st, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.Dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") && strings.Contains(e.Name(), ".tmp-") {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		allowed := os.FileMode(0o600)
		if strings.HasSuffix(path, ".crt") || strings.HasSuffix(path, ".pub") {
			allowed = 0o644
		}
		if st.Mode().IsRegular() {
			if err := s.tighten(path, st, allowed); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s Store) tighten(path string, st fs.FileInfo, allowed os.FileMode) error {
	if st.Mode().Perm()&^allowed == 0 {
		return nil
	}
	s.Log.Warn("others could read key material; taking the right away", logkey.Path, path, "mode",
		st.Mode().Perm().String())
	return os.Chmod(path, st.Mode().Perm()&allowed)
}

// broken is the error for key material that cannot be replaced.
func broken(path string, err error) error {
	return &config.UnusableError{Err: fmt.Errorf("key material %s: %w (it is in use and cannot be recreated: restore "+
		"the file from a backup, or start over with `mullion down --purge`)", path, err)}
}

func (s Store) authority(a Authority, used bool) (pair, error) {
	certPEM, certErr := os.ReadFile(s.Cert(a.Name))
	keyPEM, keyErr := os.ReadFile(s.Key(a.Name))
	if err := errors.Join(certErr, keyErr); err == nil {
		ca, err := parsePair(certPEM, keyPEM)
		if err == nil {
			return ca, s.checkAuthority(a, ca)
		}
		if used && !a.Internal {
			return pair{}, broken(s.Cert(a.Name), err)
		}
	} else if used && !a.Internal {
		return pair{}, broken(s.Cert(a.Name), err)
	}
	ca, err := selfSign(a, s.Now())
	if err != nil {
		return pair{}, err
	}
	data, err := certpem.EncodeKey(ca.Key)
	if err != nil {
		return pair{}, err
	}
	if err := durable.WriteFile(s.Key(a.Name), data, 0o600); err != nil {
		return pair{}, err
	}
	if err := durable.WriteFile(s.Cert(a.Name), certpem.Encode(ca.Cert), 0o644); err != nil {
		return pair{}, err
	}
	return ca, nil
}

func (s Store) checkAuthority(a Authority, ca pair) error {
	now := s.Now()
	switch {
	case !ca.Cert.IsCA:
		return broken(s.Cert(a.Name), errors.New("it is not an authority's certificate"))
	case now.Before(ca.Cert.NotBefore):
		return fmt.Errorf("authority %s is valid from %s, and it is %s: is the clock right?", s.Cert(a.Name),
			ca.Cert.NotBefore.Format(time.RFC3339), now.Format(time.RFC3339))
	case now.After(ca.Cert.NotAfter):
		return fmt.Errorf("authority %s expired on %s: is the clock right? If it is, the cluster must be recreated",
			s.Cert(a.Name), ca.Cert.NotAfter.Format(time.RFC3339))
	case now.Add(leafLife).After(ca.Cert.NotAfter):
		s.Log.Warn("a certificate authority expires within a year", logkey.Path, s.Cert(a.Name), "not_after",
			ca.Cert.NotAfter)
	}
	return nil
}

func (s Store) bareKey(name string, used bool) error {
	data, err := os.ReadFile(s.Key(name))
	if err == nil {
		if _, err = certpem.ParseKey(data); err == nil {
			return s.publish(name, data)
		}
	}
	if used {
		return broken(s.Key(name), err)
	}
	k, err := certpem.NewKey()
	if err != nil {
		return err
	}
	data, err = certpem.EncodeKey(k)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(s.Key(name), data, 0o600); err != nil {
		return err
	}
	return s.publish(name, data)
}

// publish writes the public half of a key, which can always be recreated.
func (s Store) publish(name string, keyPEM []byte) error {
	key, err := certpem.ParseKey(keyPEM)
	if err != nil {
		return err
	}
	want, err := marshalPublicKey(key)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(s.Public(name)); err == nil && string(have) == string(want) {
		return nil
	}
	return durable.WriteFile(s.Public(name), want, 0o644)
}

func (s Store) secret(name string, used bool) error {
	data, err := os.ReadFile(s.Secret(name))
	if err == nil {
		if err = checkEncryption(data); err == nil {
			return nil
		}
	}
	if used {
		return broken(s.Secret(name), err)
	}
	data, err = newEncryption()
	if err != nil {
		return err
	}
	return durable.WriteFile(s.Secret(name), data, 0o600)
}

func (s Store) leaf(l Leaf, ca pair) (replaced bool, err error) {
	data, err := os.ReadFile(s.Leaf(l.Name))
	why := "it is missing"
	if err == nil {
		p, perr := parsePair(data, data)
		if perr != nil {
			why = perr.Error()
		} else if why = outdated(l, p, ca, s.Now()); why == "" {
			return false, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read certificate: %w", err)
	}
	s.Log.Debug("issue certificate", logkey.Name, l.Name, logkey.Reason, why)
	p, err := issue(l, ca, s.Now())
	if err != nil {
		return false, err
	}
	key, err := certpem.EncodeKey(p.Key)
	if err != nil {
		return false, err
	}
	// A server sends its authority too, so that a joining node can find the one whose
	// hash it has.
	return true, durable.WriteFile(s.Leaf(l.Name), slices.Concat(certpem.Encode(p.Cert), certpem.Encode(ca.Cert), key),
		0o600)
}

// encryption is the part of apiserver.config.k8s.io/v1 EncryptionConfiguration
// that is used here.
type encryption struct {
	APIVersion string               `json:"apiVersion"`
	Kind       string               `json:"kind"`
	Resources  []encryptionResource `json:"resources"`
}

type encryptionResource struct {
	Resources []string             `json:"resources"`
	Providers []encryptionProvider `json:"providers"`
}

type encryptionProvider struct {
	Secretbox *encryptionKeys `json:"secretbox,omitempty"`
	Identity  *struct{}       `json:"identity,omitempty"`
}

type encryptionKeys struct {
	Keys []encryptionKey `json:"keys"`
}

type encryptionKey struct {
	Name   string `json:"name"`
	Secret string `json:"secret"` // base64
}

// secretboxKeyBytes is the key length of XSalsa20-Poly1305, the strongest of
// the providers that need no outside service
// (https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data/).
const secretboxKeyBytes = 32

func newEncryption() ([]byte, error) {
	key := make([]byte, secretboxKeyBytes)
	// It never fails: crypto/rand ends the program instead (Go 1.24).
	_, _ = rand.Read(key)
	data, err := json.MarshalIndent(encryption{"apiserver.config.k8s.io/v1", "EncryptionConfiguration",
		[]encryptionResource{{
			Resources: []string{"secrets"},
			Providers: []encryptionProvider{
				{Secretbox: &encryptionKeys{[]encryptionKey{{"key1", base64.StdEncoding.EncodeToString(key)}}}},
				// To read data that an earlier user of an external etcd wrote without
				// encryption.
				{Identity: &struct{}{}},
			},
		}}}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("marshal encryption configuration: %w", err)
	}
	return append(data, '\n'), nil
}

// checkEncryption only detects damage: a user may add keys and resources.
func checkEncryption(data []byte) error {
	var e encryption
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if e.Kind != "EncryptionConfiguration" || len(e.Resources) == 0 || len(e.Resources[0].Providers) == 0 {
		return errors.New("it is not an EncryptionConfiguration")
	}
	for _, r := range e.Resources {
		for _, p := range r.Providers {
			if p.Secretbox == nil {
				continue
			}
			for _, k := range p.Secretbox.Keys {
				if b, err := base64.StdEncoding.DecodeString(k.Secret); err != nil || len(b) != secretboxKeyBytes {
					return fmt.Errorf("key %q is not %d bytes of base64", k.Name, secretboxKeyBytes)
				}
			}
		}
	}
	return nil
}
