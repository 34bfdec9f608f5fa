// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"path/filepath"
)

// DefaultDataDir holds everything that mullion keeps on a machine.
const DefaultDataDir = "/var/lib/mullion"

// Layout has the paths in the data directory. The directory is 0700: it holds private
// keys, secrets of pods, and the file systems of the nodes.
type Layout struct {
	DataDir string
	Name    string // of the cluster
}

// cache is shared by all clusters: Wine prefixes, stand-in images. It can be
// deleted while no cluster runs.
func (l Layout) cache() string { return filepath.Join(l.DataDir, "cache") }

// clusters returns the directory with one directory per cluster.
func (l Layout) clusters() string { return filepath.Join(l.DataDir, "clusters") }

// Dir returns the cluster's own directory.
func (l Layout) Dir() string { return filepath.Join(l.clusters(), l.Name) }

// config returns the file with the cluster's Config.
func (l Layout) config() string { return filepath.Join(l.Dir(), "cluster.json") }

// Kubeconfig returns the administrator's kubeconfig file, 0600.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Dir(), "admin.kubeconfig") }

// UserKubeconfig returns the document that names the kubeconfig file of the user's
// to which the cluster's context was added.
func (l Layout) UserKubeconfig() string { return filepath.Join(l.Dir(), "user-kubeconfig.json") }

// run holds the state of running processes: status, locks, sockets. It is meaningless
// after a restart of the machine.
func (l Layout) run() string { return filepath.Join(l.Dir(), "run") }

// Logs holds one file per component.
func (l Layout) Logs() string { return filepath.Join(l.Dir(), "logs") }

// log returns the file of one component.
func (l Layout) log(component string) string { return filepath.Join(l.Logs(), component+".log") }

// Node returns the directory of one emulated host.
func (l Layout) Node(name string) string { return filepath.Join(l.Dir(), "nodes", name) }

// lock is held by the supervisor for as long as it runs.
func (l Layout) lock() string { return filepath.Join(l.run(), "supervisor.lock") }

// backup holds the copies of a backup that is being made; its lock is next to it.
func (l Layout) backup() string { return filepath.Join(l.run(), "backup") }

// staging is the directory of a cluster that is being restored. It is outside of
// clusters, because its content isn't a cluster yet.
func (l Layout) staging() string { return filepath.Join(l.DataDir, ".restore") }

// serverConfig returns the control plane's configuration.
func (l Layout) serverConfig() string { return filepath.Join(l.run(), "server-config.json") }

// nodeConfig returns the configuration of one emulated host.
func (l Layout) nodeConfig(name string) string {
	return filepath.Join(l.run(), name+"-config.json")
}

// nodeStatus is written by one emulated host.
func (l Layout) nodeStatus(name string) string { return filepath.Join(l.run(), name+".json") }

// token holds the bootstrap token of a host that has yet to join.
func (l Layout) token(node string) string { return filepath.Join(l.run(), node+".token") }

// netns returns the directory in which network namespaces are kept as files.
func (l Layout) netns() string { return filepath.Join(l.run(), "netns") }

// ImageSocket is where a host takes image archives; see package imageload.
func (l Layout) ImageSocket(node string) string {
	return filepath.Join(l.Node(node), "images.sock")
}
