// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mullion-k8s/mullion/internal/cluster/archive"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/version"
)

// ErrExternal is returned, wrapped, for a cluster whose datastore is not its own.
var ErrExternal = errors.New("only a cluster's own etcd can be backed up")

// Backup is a consistent copy of everything that Restore needs, outside of the cluster:
// all objects, the key material, cluster.json. The hosts are not part of it; they join
// again after a restore.
type Backup struct {
	Manifest archive.Manifest // without Files

	dir     string
	members []archive.Source
	lock    *durable.Lock
}

// TakeBackup copies the files for a backup of the cluster, which may be running. The
// caller closes the result.
func TakeBackup(ctx context.Context, l Layout, bin Binaries) (_ *Backup, err error) {
	c, err := Load(l)
	if err != nil {
		return nil, err
	}
	if !c.Datastore.Embedded() {
		return nil, fmt.Errorf("back up cluster %q: %w, and this one uses %s", c.Name, ErrExternal,
			datastoreName(c.Datastore))
	}
	p, err := Describe(l, c, bin)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.run(), 0o700); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	lock, err := durable.TryLock(l.backup()+".lock", durable.Exclusive)
	if _, locked := errors.AsType[*durable.LockedError](err); locked {
		return nil, fmt.Errorf("back up cluster %q: another backup is being made: %w", c.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	b := &Backup{dir: l.backup(), lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	// Remove the remains of a killed backup.
	if err := os.RemoveAll(b.dir); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(b.dir, archive.PKI), 0o700); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	made, err := takeSnapshot(ctx, bin, p.Server, b.dir)
	if err != nil {
		return nil, fmt.Errorf("back up cluster %q: %w", c.Name, err)
	}
	// The keys come second: a key that is added meanwhile must not be missing.
	if err := b.copyFiles(l, p.Server); err != nil {
		return nil, fmt.Errorf("back up cluster %q: %w", c.Name, err)
	}
	b.Manifest = archive.Manifest{
		Mullion:    version.String(),
		Kubernetes: version.Kubernetes,
		Name:       c.Name,
		Created:    time.Now().UTC().Truncate(time.Second),
		Revision:   made.Revision,
		Keys:       made.Keys,
	}
	return b, nil
}

// takeSnapshot writes a snapshot of the datastore into dir.
func takeSnapshot(ctx context.Context, bin Binaries, c config.Config, dir string) (config.Snapshot, error) {
	out, err := runSnapshot(ctx, bin, "save", c, dir)
	if err != nil {
		return config.Snapshot{}, err
	}
	var made config.Snapshot
	if err := json.Unmarshal(out, &made); err != nil {
		return config.Snapshot{}, fmt.Errorf("read the report of %s: %w", bin.Kube(), err)
	}
	return made, nil
}

// runSnapshot runs `mullion-kube snapshot` for the snapshot in dir.
func runSnapshot(ctx context.Context, bin Binaries, verb string, c config.Config, dir string) ([]byte, error) {
	document := filepath.Join(dir, "server.json")
	if err := durable.WriteDocument(document, c); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, bin.Kube(), "snapshot", verb, "--config", document,
		"--file", filepath.Join(dir, archive.Snapshot))
	var out, log bytes.Buffer
	cmd.Dir, cmd.Env = "/", serverEnvironment(os.Environ())
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches it through ctx
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopProgram
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if why := lastError(bytes.NewReader(log.Bytes()), 0, endLine); why != "" {
			return nil, errors.New(why)
		}
		return nil, fmt.Errorf("run %s: %w: %s", bin.Kube(), err, strings.TrimSpace(log.String()))
	}
	return out.Bytes(), os.Remove(document)
}

// copyFiles copies the small files. Each is replaced as a whole when it changes, so
// a copy is never half old and half new.
func (b *Backup) copyFiles(l Layout, c config.Config) error {
	b.members = nil
	add := func(name, from string) error {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		to := filepath.Join(b.dir, filepath.FromSlash(name))
		b.members = append(b.members, archive.Source{Name: name, Path: to})
		return os.WriteFile(to, data, 0o600)
	}
	if err := add(archive.Cluster, l.config()); err != nil {
		return err
	}
	keys, err := os.ReadDir(c.PKI())
	if err != nil {
		return err
	}
	for _, k := range keys {
		// A leading dot marks a file that is being written.
		if !k.Type().IsRegular() || strings.HasPrefix(k.Name(), ".") {
			continue
		}
		if err := add(path.Join(archive.PKI, k.Name()), filepath.Join(c.PKI(), k.Name())); err != nil {
			return err
		}
	}
	b.members = append(b.members, archive.Source{
		Name: archive.Snapshot,
		Path: filepath.Join(b.dir, archive.Snapshot),
	})
	return nil
}

// Write writes the backup as an archive.
func (b *Backup) Write(w io.Writer) error { return archive.Write(w, b.Manifest, b.members) }

// WriteFile replaces the file at path with the archive, once that is complete. Only
// the owner can read it: it holds every key and secret of the cluster.
func (b *Backup) WriteFile(path string) error { return durable.Replace(path, 0o600, b.Write) }

// Close removes the copies.
func (b *Backup) Close() error {
	defer b.lock.Unlock()
	if err := os.RemoveAll(b.dir); err != nil {
		return fmt.Errorf("remove copies of a backup: %w", err)
	}
	return nil
}
