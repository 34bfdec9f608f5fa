// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// revisionBump is the lead of a restored datastore's revision over its snapshot, so that
// no client sees a revision go back: etcd's advice for Kubernetes
// (https://etcd.io/docs/v3.6/op-guide/recovery/, "Restoring with revision bump").
const revisionBump = 1_000_000_000

// SaveSnapshot writes a snapshot of the control plane's own etcd into a file and checks
// it as `etcdutl snapshot status` does. It requests the snapshot from the running control
// plane; otherwise, it runs etcd alone for a moment, because only etcd can apply the part
// of its log that has not reached its database yet.
func SaveSnapshot(ctx context.Context, c config.Config, file string, log *slog.Logger) (config.Snapshot, error) {
	if !c.Datastore.Embedded() {
		return config.Snapshot{}, errors.New("snapshot: the control plane uses an external etcd")
	}
	log = log.With(logkey.Component, plan.Etcd)
	if err := saveSnapshot(ctx, c, file, log); err != nil {
		return config.Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	st, err := snapshot.NewV3(etcdLog(log)).Status(file)
	if err != nil {
		return config.Snapshot{}, fmt.Errorf("check snapshot: %w", err)
	}
	return config.Snapshot{Revision: st.Revision, Keys: st.TotalKey, Size: st.TotalSize}, nil
}

func saveSnapshot(ctx context.Context, c config.Config, file string, log *slog.Logger) error {
	if _, err := os.Stat(c.Etcd()); err != nil {
		return fmt.Errorf("the control plane has never run: %w", err)
	}
	release, err := lock(c.LockFile())
	if errors.Is(err, ErrLocked) {
		return fetchSnapshot(ctx, c, file, log)
	}
	if err != nil {
		return err
	}
	defer release()
	if err := enter(c); err != nil {
		return err
	}
	ended := make(chan error, 2) // etcd ends once, and may have given up before
	e := &etcd{cfg: c, log: log, ready: make(chan struct{}), fatal: func(reason error) {
		ended <- reason
		select {} // its caller does not expect to come back
	}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- e.run(ctx) }()
	select {
	case <-e.ready:
	case err := <-ended:
		return errors.Join(err, ctx.Err())
	}
	err = fetchSnapshot(ctx, c, file, log)
	stop()
	return errors.Join(err, <-ended)
}

// fetchSnapshot requests a snapshot from the running etcd.
func fetchSnapshot(ctx context.Context, c config.Config, file string, log *slog.Logger) error {
	s := pki.Store{Dir: c.PKI()}
	tls, err := transport.TLSInfo{
		CertFile:      s.Leaf(pki.APIServerEtcd),
		KeyFile:       s.Leaf(pki.APIServerEtcd),
		TrustedCAFile: s.Cert(pki.EtcdCA),
	}.ClientConfig()
	if err != nil {
		return fmt.Errorf("log in to etcd: %w", err)
	}
	manager := snapshot.NewV3(etcdLog(log))
	_, err = manager.Save(ctx, clientv3.Config{Endpoints: []string{plan.EtcdEndpoint(c)}, TLS: tls}, file)
	return err
}

// RestoreSnapshot makes the data directory of the control plane's own etcd, which
// must not exist, from a snapshot, whose checksum it compares.
func RestoreSnapshot(c config.Config, file string, log *slog.Logger) error {
	if !c.Datastore.Embedded() {
		return errors.New("restore snapshot: the control plane uses an external etcd")
	}
	peer := etcdPeer()
	err := snapshot.NewV3(etcdLog(log.With(logkey.Component, plan.Etcd))).Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                etcdName,
		OutputDataDir:       c.Etcd(),
		PeerURLs:            []string{peer.String()},
		InitialCluster:      etcdMembers(),
		InitialClusterToken: embed.NewConfig().InitialClusterToken,
		RevisionBump:        revisionBump,
		MarkCompacted:       true,
	})
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return nil
}
