// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
)

// kubeconfig is the part of clientcmd's v1.Config that a node needs.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CAData []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type user struct {
	Token             string `json:"token,omitempty"`
	ClientCertificate string `json:"client-certificate,omitempty"`
	ClientKey         string `json:"client-key,omitempty"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

func newKubeconfig(server string, ca []byte, name string, u user) kubeconfig {
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: "mullion"}
	cluster := namedCluster{Name: "mullion"}
	cluster.Cluster.Server, cluster.Cluster.CAData = server, ca
	context := namedContext{Name: "mullion"}
	context.Context.Cluster, context.Context.User = "mullion", name
	k.Clusters = []namedCluster{cluster}
	k.Users = []namedUser{{name, u}}
	k.Contexts = []namedContext{context}
	return k
}

// validToken is the form of bootstrap tokens
// (k8s.io/cluster-bootstrap/token/api, BootstrapTokenPattern).
var validToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// checkCA makes sure that the certificates are the pinned one and nothing else:
// a second certificate in the file would be trusted as well.
func checkCA(ca []byte, pin string) error {
	block, rest := pem.Decode(ca)
	if block == nil || block.Type != "CERTIFICATE" {
		return errors.New("the CA file holds no PEM certificate")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return errors.New("the CA file holds more than one certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("parse CA certificate: %w", err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	if got := "sha256:" + hex.EncodeToString(sum[:]); subtle.ConstantTimeCompare([]byte(got), []byte(pin)) != 1 {
		return fmt.Errorf("the CA certificate is not the pinned one: it has hash %s, the configuration says %s", got, pin)
	}
	return nil
}
