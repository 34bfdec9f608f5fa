// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/mullion-k8s/mullion/internal/atomicfile"
)

// The identity of kube-proxy: the user whom Kubernetes itself gives the rights
// of a kube-proxy (ClusterRoleBinding system:node-proxier) and nothing else.
const (
	proxyUser   = "system:kube-proxy"
	proxySigner = "kubernetes.io/kube-apiserver-client"
)

// certificateRequest is a CertificateSigningRequest, certificates.k8s.io/v1.
type certificateRequest struct {
	APIVersion string                    `json:"apiVersion"`
	Kind       string                    `json:"kind"`
	Metadata   objectMeta                `json:"metadata"`
	Spec       certificateRequestSpec    `json:"spec"`
	Status     *certificateRequestStatus `json:"status,omitempty"`
}

type objectMeta struct {
	Name string `json:"name"`
}

type certificateRequestSpec struct {
	Request    []byte   `json:"request"`
	SignerName string   `json:"signerName"`
	Usages     []string `json:"usages"`
}

type certificateRequestStatus struct {
	Certificate []byte `json:"certificate"`
	Conditions  []struct {
		Type    string `json:"type"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"conditions"`
}

// errPending says that the cluster has not signed the request yet.
var errPending = errors.New("waiting for the cluster to sign the certificate")

// certificate keeps kube-proxy's key pair: it requests the first one and a new
// one when four fifths of its life are over. The key never leaves the node; the
// request's name derives from it, so that asking again after a restart finds
// the same request.
type certificate struct {
	file string // key and certificate, PEM
	node string
	now  func() time.Time
}

// Ensure makes sure that the file holds a usable pair, and says whether it
// wrote a new one. errPending: ask again.
func (c certificate) Ensure(ctx context.Context, api *apiServer) (changed bool, err error) {
	if c.fresh() {
		return false, nil
	}
	// The key of a request that waits lies beside the file.
	waiting := c.file + ".request"
	keyPEM, err := os.ReadFile(waiting)
	if errors.Is(err, fs.ErrNotExist) {
		keyPEM, err = newKey()
		if err == nil {
			err = atomicfile.Write(waiting, keyPEM, 0o600)
		}
	}
	if err != nil {
		return false, fmt.Errorf("make key of kube-proxy: %w", err)
	}
	cert, err := c.request(ctx, api, keyPEM)
	if err != nil {
		return false, err
	}
	pair := append(bytes.Clone(cert), keyPEM...)
	if _, err := tls.X509KeyPair(pair, pair); err != nil {
		return false, errors.Join(fmt.Errorf("certificate of kube-proxy: %w", err), os.Remove(waiting))
	}
	if err := atomicfile.Write(c.file, pair, 0o600); err != nil {
		return false, err
	}
	return true, os.Remove(waiting)
}

// fresh says whether the pair exists and is good for a while.
func (c certificate) fresh() bool {
	pair, err := tls.LoadX509KeyPair(c.file, c.file)
	if err != nil {
		return false
	}
	leaf := pair.Leaf
	renew := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 4 / 5)
	return c.now().Before(renew)
}

func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// request files the request for the key, or looks at the one that was filed.
func (c certificate) request(ctx context.Context, api *apiServer, keyPEM []byte) ([]byte, error) {
	name, csr, err := c.compose(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("request certificate of kube-proxy: %w", err)
	}
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	var have certificateRequest
	err = api.do(ctx, http.MethodGet, path+"/"+name, nil, &have)
	if isNotFound(err) {
		err = api.do(ctx, http.MethodPost, path, certificateRequest{
			APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest",
			Metadata: objectMeta{name},
			Spec:     certificateRequestSpec{csr, proxySigner, []string{"digital signature", "client auth"}},
		}, &have)
		if isConflict(err) {
			return nil, errPending
		}
	}
	if err != nil {
		return nil, fmt.Errorf("request certificate of kube-proxy: %w", err)
	}
	if have.Status == nil {
		return nil, errPending
	}
	for _, cond := range have.Status.Conditions {
		if cond.Type == "Denied" || cond.Type == "Failed" {
			// A new key makes a new request.
			return nil, errors.Join(fmt.Errorf("request certificate of kube-proxy: %s: %s", cond.Type, cond.Message), os.Remove(c.file+".request"))
		}
	}
	if len(have.Status.Certificate) == 0 {
		return nil, errPending
	}
	return have.Status.Certificate, nil
}

// compose makes the request for a key and its name.
func (c certificate) compose(keyPEM []byte) (name string, csr []byte, err error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return "", nil, errors.Join(errors.New("the key is damaged"), os.Remove(c.file+".request"))
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(c.file+".request"))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: proxyUser}}, key)
	if err != nil {
		return "", nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.(*ecdsa.PrivateKey).Public())
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(public)
	return "kube-proxy-" + c.node + "-" + hex.EncodeToString(sum[:8]), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
