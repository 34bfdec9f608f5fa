// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// Sizes and times of an etcd that is alone. The defaults suit three members
// that talk over a network.
const (
	// etcdTick and etcdElection, in milliseconds: the only member waits up to twice the
	// second before it elects itself (raft's random factor). The default of 1000 would be
	// a fifth of the whole start.
	etcdTick, etcdElection = 10, 100
	// etcdQuotaBytes is etcd's recommended default of 2 GiB
	// (https://etcd.io/docs/v3.6/dev-guide/limit/): far above any cluster of one machine,
	// and a limit for a runaway client.
	etcdQuotaBytes = 2 << 30
	// etcdSnapshotEntries and etcdCatchUpEntries bound the raft log that is kept in
	// memory for members that lag behind. There is only one member.
	etcdSnapshotEntries, etcdCatchUpEntries = 2000, 100
	// etcdProgress makes consistent reads from kube-apiserver's cache fast (KEP-2340
	// requires 5 s or less).
	etcdProgress = 5 * time.Second
	// etcdStuck is the time for which a log may end before the database while etcd starts. A member that has
	// elected itself commits the rest of its log at once.
	etcdStuck = 5 * time.Second
)

// etcdName is the name of the only member.
const etcdName = "mullion"

// etcdPeer is where other members would find this one. It is the only member: no process
// listens there, and the address is only a name.
func etcdPeer() url.URL { return url.URL{Scheme: "https", Host: "127.0.0.1:2380"} }

// etcdMembers lists the members in the notation of etcd's --initial-cluster.
func etcdMembers() string {
	u := etcdPeer()
	return etcdName + "=" + u.String()
}

// etcdConfig returns the configuration of the embedded etcd. Compaction is not set:
// kube-apiserver compacts every five minutes, and two of them doing so would be
// in each other's way.
func etcdConfig(c config.Config, log *slog.Logger, fatal func(reason error)) (*embed.Config, error) {
	s := pki.Store{Dir: c.PKI()}
	e := embed.NewConfig()
	e.Name = etcdName
	e.Dir = c.Etcd()
	client, err := url.Parse(plan.EtcdEndpoint(c))
	if err != nil {
		return nil, fmt.Errorf("etcd's address: %w", err)
	}
	e.ListenClientUrls = []url.URL{*client}
	e.ListenPeerUrls = nil
	e.AdvertisePeerUrls = []url.URL{etcdPeer()}
	e.AdvertiseClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:2379"}}
	e.InitialCluster = etcdMembers()
	e.ClientTLSInfo = transport.TLSInfo{
		CertFile: s.Leaf(pki.Etcd), KeyFile: s.Leaf(pki.Etcd),
		TrustedCAFile: s.Cert(pki.EtcdCA), ClientCertAuth: true,
	}
	e.EnableGRPCGateway = false
	e.TickMs, e.ElectionMs = etcdTick, etcdElection
	e.QuotaBackendBytes = etcdQuotaBytes
	e.SnapshotCount, e.SnapshotCatchUpEntries = etcdSnapshotEntries, etcdCatchUpEntries
	e.WatchProgressNotifyInterval = etcdProgress
	// The field's default is set where etcd's flags are parsed.
	e.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(zapCore{without{log.Handler(), noise()}},
		zap.WithFatalHook(fatalHook{fatal})))
	return e, nil
}

// etcd runs the embedded etcd.
type etcd struct {
	cfg   config.Config
	log   *slog.Logger
	fatal func(reason error) // does not return
	ready chan struct{}
}

// bootstrapping returns the name of the file that exists while etcd makes its data
// directory. A power cut at that moment can leave a directory that etcd cannot open again
// (etcd issue 16596); it does not contain any writes yet, so it is removed.
func bootstrapping(c config.Config) string { return c.Etcd() + ".bootstrapping" }

func (e *etcd) run(ctx context.Context) error {
	if err := e.prepare(); err != nil {
		return fmt.Errorf("prepare etcd: %w", err)
	}
	if err := begin(ctx, e.cfg); err != nil {
		return fmt.Errorf("prepare etcd: %w", err)
	}
	stored, err := inDatabase(datadir.ToBackendFileName(e.cfg.Etcd()))
	if err != nil {
		return fmt.Errorf("prepare etcd: %w", err)
	}
	cfg, err := etcdConfig(e.cfg, e.log, e.fatal)
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer server.Close()
	if err := e.await(ctx, server, stored); err != nil || ctx.Err() != nil {
		return err
	}
	// From here on clients may rely on the data.
	for _, note := range []string{bootstrapping(e.cfg), starting(e.cfg)} {
		if err := os.Remove(note); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prepare etcd: %w", err)
		}
	}
	if err := durable.SyncDir(filepath.Dir(e.cfg.Etcd())); err != nil {
		return fmt.Errorf("prepare etcd: %w", err)
	}
	close(e.ready)
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

// await waits until etcd is ready. stored is the index of its database (inDatabase).
//
// etcd cuts its log at a record that is longer than the file (wal.Repair): a power cut left it half written, or its
// length was changed. Entries are written before their effects, so only a change leaves the database ahead. Then etcd
// drops all new entries up to the database's index. It drops its own first entry, too, and waits for it forever.
func (e *etcd) await(ctx context.Context, server *embed.Etcd, stored uint64) error {
	tick := time.NewTicker(etcdStuck)
	defer tick.Stop()
	behind := false
	for {
		select {
		case <-server.Server.ReadyNotify():
			return nil
		case <-tick.C:
			end := server.Server.CommittedIndex()
			was := behind
			behind = server.Server.Leader() != 0 && end < stored
			if was && behind {
				// Closing etcd would wait for its first entry, too.
				e.fatal(damaged(e.cfg.Etcd(), fmt.Errorf("its log: it ends at entry %d, and the database has entry %d",
					end, stored)))
			}
		case err := <-server.Err():
			return fmt.Errorf("etcd: %w", err)
		case <-server.Server.StopNotify():
			return errors.New("etcd stopped while it started")
		case <-ctx.Done():
			return nil
		}
	}
}

func (e *etcd) prepare() error {
	marker := bootstrapping(e.cfg)
	if _, err := os.Stat(marker); err == nil {
		e.log.Warn("removing the data directory of an etcd that never became ready", logkey.Path, e.cfg.Etcd())
		if err := os.RemoveAll(e.cfg.Etcd()); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(e.cfg.Etcd()); errors.Is(err, fs.ErrNotExist) {
		if err := durable.WriteFile(marker, nil, 0o600); err != nil {
			return err
		}
	}
	if err := readable(datadir.ToBackendFileName(e.cfg.Etcd())); err != nil {
		return err
	}
	for _, dir := range []string{e.cfg.Etcd(), filepath.Dir(e.cfg.EtcdSocket())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// isReady is a supervise.Component's Ready. It waits for a moment, because everything
// else waits for etcd and a retry takes longer.
func (e *etcd) isReady(ctx context.Context) error {
	select {
	case <-e.ready:
		return nil
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return errors.New("etcd has not elected itself yet")
}
