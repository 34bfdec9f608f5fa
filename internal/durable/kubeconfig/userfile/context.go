// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package userfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Context is a cluster as it appears in a kubeconfig file: a cluster, a user and a
// context of one name.
type Context struct {
	Name      string // of all three
	Directory string // of the cluster on this machine
	Config    []byte // the administrator's kubeconfig, with one context
}

// extension is the name under which a context records its owner.
const extension = "mullion.dev/cluster"

// mark is the content of the extension.
type mark struct {
	Directory string `json:"directory"` // of the cluster
}

// Named returns the administrator's kubeconfig of a cluster with everything in one
// file and all names replaced by one.
func Named(admin, name string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	if err := api.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil || config.AuthInfos[current.AuthInfo] == nil {
		return nil, fmt.Errorf("read the cluster's kubeconfig: %s has no current context", admin)
	}
	out := api.NewConfig()
	out.Clusters[name] = config.Clusters[current.Cluster]
	out.AuthInfos[name] = config.AuthInfos[current.AuthInfo]
	out.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}

// add puts a context into a configuration and makes it the current one. It never replaces
// entries of another cluster.
func (c Context) add(into *api.Config) error {
	if err := c.check(into); err != nil {
		return err
	}
	from, err := clientcmd.Load(c.Config)
	if err != nil {
		return fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	raw, err := json.Marshal(mark{Directory: c.Directory})
	if err != nil {
		return fmt.Errorf("mark the context: %w", err)
	}
	into.Clusters[c.Name], into.AuthInfos[c.Name] = from.Clusters[c.Name], from.AuthInfos[c.Name]
	context := &api.Context{Cluster: c.Name, AuthInfo: c.Name}
	if old := into.Contexts[c.Name]; old != nil {
		context.Namespace = old.Namespace // the user's choice
	}
	context.Extensions = map[string]runtime.Object{
		extension: &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON},
	}
	into.Contexts[c.Name] = context
	into.CurrentContext = c.Name
	return nil
}

// remove takes a context out of a configuration and reports whether it was there.
func (c Context) remove(from *api.Config) bool {
	if from.Contexts[c.Name] == nil || c.check(from) != nil {
		return false
	}
	delete(from.Contexts, c.Name)
	if from.CurrentContext == c.Name {
		from.CurrentContext = ""
	}
	for name := range from.Contexts {
		if from.Contexts[name].Cluster == c.Name || from.Contexts[name].AuthInfo == c.Name {
			return true // the user's own contexts need the rest
		}
	}
	delete(from.Clusters, c.Name)
	delete(from.AuthInfos, c.Name)
	return true
}

// check returns an error unless the entries of this name belong to this cluster or to a
// cluster that no longer exists.
func (c Context) check(in *api.Config) error {
	context := in.Contexts[c.Name]
	if context == nil {
		if in.Clusters[c.Name] != nil || in.AuthInfos[c.Name] != nil {
			return fmt.Errorf("there is a cluster or a user %s that mullion did not write", c.Name)
		}
		return nil
	}
	var m mark
	unknown, ok := context.Extensions[extension].(*runtime.Unknown)
	if !ok || json.Unmarshal(unknown.Raw, &m) != nil {
		return fmt.Errorf("there is a context %s that mullion did not write", c.Name)
	}
	if m.Directory == c.Directory {
		return nil
	}
	if _, err := os.Stat(m.Directory); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("context %s belongs to the cluster in %s", c.Name, m.Directory)
}
