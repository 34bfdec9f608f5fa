// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package config

import "path/filepath"

// PKI returns the directory of keys and certificates, 0700.
func (c Config) PKI() string { return filepath.Join(c.DataDir, "pki") }

// Etcd returns the data directory of the embedded etcd, 0700.
func (c Config) Etcd() string { return filepath.Join(c.DataDir, "etcd") }

// Run returns the directory with the files that describe the running process.
func (c Config) Run() string { return filepath.Join(c.DataDir, "run") }

// EtcdSocket is where the embedded etcd listens, in a separate directory that only root
// can enter.
func (c Config) EtcdSocket() string { return filepath.Join(c.Run(), "etcd", "etcd.sock") }

// Generated returns the directory of the configuration files that are rewritten at
// each start.
func (c Config) Generated() string { return filepath.Join(c.Run(), "server") }

// AuditLog is rotated; see plan.APIServer.
func (c Config) AuditLog() string { return filepath.Join(c.DataDir, "logs", "audit.log") }

// AdminKubeconfig returns the administrator's self-contained kubeconfig file, 0600.
func (c Config) AdminKubeconfig() string { return filepath.Join(c.DataDir, "admin.kubeconfig") }

// StatusFile is where the control plane reports its Status.
func (c Config) StatusFile() string { return filepath.Join(c.Run(), "server.json") }

// LockFile is held by the control plane that uses the directory.
func (c Config) LockFile() string { return filepath.Join(c.DataDir, "server.lock") }

// VersionFile returns the file with the last version of mullion that used the directory.
func (c Config) VersionFile() string { return filepath.Join(c.DataDir, "version.json") }

// ClusterCA returns the file of the certificate that clients and nodes trust.
func (c Config) ClusterCA() string { return filepath.Join(c.PKI(), "cluster-ca.crt") }
