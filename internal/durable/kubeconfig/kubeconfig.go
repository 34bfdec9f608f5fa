// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package kubeconfig defines the part of kubeconfig files that mullion writes. Its
// types mirror k8s.io/client-go/tools/clientcmd/api/v1, which would link all of
// client-go into the node agent.
package kubeconfig

// Config is the content of a kubeconfig file, to be marshalled as JSON or YAML.
type Config struct {
	APIVersion     string    `json:"apiVersion"`
	Clusters       []Cluster `json:"clusters,omitzero"`
	Contexts       []Context `json:"contexts,omitzero"`
	CurrentContext string    `json:"current-context"`
	Kind           string    `json:"kind"`
	Users          []User    `json:"users,omitzero"`
}

// Cluster is a server and its certificate authority, as a file or as data.
type Cluster struct {
	Cluster struct {
		CA     string `json:"certificate-authority,omitempty"`
		CAData []byte `json:"certificate-authority-data,omitempty"`
		Server string `json:"server"`
	} `json:"cluster"`
	Name string `json:"name"`
}

// User is an identity: a token, or a certificate and its key as files or data.
type User struct {
	Name string      `json:"name"`
	User Credentials `json:"user"`
}

// Credentials of a User.
type Credentials struct {
	Certificate     string `json:"client-certificate,omitempty"`
	CertificateData []byte `json:"client-certificate-data,omitempty"`
	Key             string `json:"client-key,omitempty"`
	KeyData         []byte `json:"client-key-data,omitempty"`
	Token           string `json:"token,omitempty"`
}

// Context pairs a cluster with a user.
type Context struct {
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
	Name string `json:"name"`
}

// New returns an empty Config.
func New() Config { return Config{APIVersion: "v1", Kind: "Config"} }

// ForUser returns a Config with one context, for the user and the cluster.
func ForUser(context string, c Cluster, u User) Config {
	k := New()
	k.Clusters, k.Users = []Cluster{c}, []User{u}
	k.Contexts, k.CurrentContext = []Context{{Name: context}}, context
	k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = c.Name, u.Name
	return k
}

// WithCA returns a cluster whose authority is in a file.
func WithCA(name, server, file string) Cluster {
	c := Cluster{Name: name}
	c.Cluster.Server, c.Cluster.CA = server, file
	return c
}

// WithCAData returns a cluster whose authority, in PEM, is part of the kubeconfig.
func WithCAData(name, server string, ca []byte) Cluster {
	c := Cluster{Name: name}
	c.Cluster.Server, c.Cluster.CAData = server, ca
	return c
}
