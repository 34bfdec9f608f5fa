// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"path/filepath"
)

// DefaultDataDir holds everything that mullion keeps on a machine.
const DefaultDataDir = "/var/lib/mullion"

// Layout knows where things lie in the data directory. The directory is 0700:
// it holds private keys, secrets of pods, and the file systems of the nodes.
type Layout struct {
	DataDir string
	Name    string // of the cluster
}

// Cache is shared by all clusters: Wine prefixes, stand-in images. It can be
// deleted while no cluster runs.
func (l Layout) Cache() string { return filepath.Join(l.DataDir, "cache") }

// Clusters returns the directory with one directory per cluster.
func (l Layout) Clusters() string { return filepath.Join(l.DataDir, "clusters") }

// Dir returns the cluster's own directory.
func (l Layout) Dir() string { return filepath.Join(l.Clusters(), l.Name) }

// Config returns the file with the cluster's Config.
func (l Layout) Config() string { return filepath.Join(l.Dir(), "cluster.json") }

// Kubeconfig returns the administrator's kubeconfig file, 0600.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Dir(), "admin.kubeconfig") }

// Run holds what describes running processes: status, locks, sockets. It
// means nothing after the machine was restarted.
func (l Layout) Run() string { return filepath.Join(l.Dir(), "run") }

// Logs holds one file per component.
func (l Layout) Logs() string { return filepath.Join(l.Dir(), "logs") }

// Log returns the file of one component.
func (l Layout) Log(component string) string { return filepath.Join(l.Logs(), component+".log") }

// Node returns the directory of one emulated host.
func (l Layout) Node(name string) string { return filepath.Join(l.Dir(), "nodes", name) }

// Lock is held by the supervisor for as long as it runs.
func (l Layout) Lock() string { return filepath.Join(l.Run(), "supervisor.lock") }

// Status returns the file that the supervisor writes at each change.
func (l Layout) Status() string { return filepath.Join(l.Run(), "status.json") }

// ServerConfig returns the control plane's configuration.
func (l Layout) ServerConfig() string { return filepath.Join(l.Run(), "server-config.json") }

// NodeConfig returns the configuration of one emulated host.
func (l Layout) NodeConfig(name string) string {
	return filepath.Join(l.Run(), name+"-config.json")
}

// NodeStatus is written by one emulated host.
func (l Layout) NodeStatus(name string) string { return filepath.Join(l.Run(), name+".json") }

// Token holds the bootstrap token of a host that has yet to join.
func (l Layout) Token(node string) string { return filepath.Join(l.Run(), node+".token") }

// Netns returns the directory in which network namespaces are kept as files.
func (l Layout) Netns() string { return filepath.Join(l.Run(), "netns") }

// ImageSocket is where a host takes image archives; see package imageload.
func (l Layout) ImageSocket(node string) string {
	return filepath.Join(l.Node(node), "images.sock")
}
