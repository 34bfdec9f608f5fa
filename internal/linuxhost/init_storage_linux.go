// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/csidriver"
	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

const (
	// volumesDir has the data of the class mullion-local.
	volumesDir = "/var/lib/mullion"
	// imagesDir has the disks of these volumes, see host.Volumes.
	imagesDir = nodeDir + "/claims"
	// askEvery is the longest pause between two queries whether the cluster uses the driver.
	askEvery = 30 * time.Second
)

// serveStorage runs the CSI driver, in clusters that use it.
func serveStorage(b boot, log io.Writer) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := nodeapi.New(b.Config.Server, b.Config.Name, b.CA, kubeletCertificate)
		if err != nil {
			return err
		}
		api := csidriver.API{Client: client}
		if supervise.Await(ctx, nil, askEvery, func() error {
			wanted, err := api.Wants(ctx)
			if err != nil {
				fmt.Fprintf(log, "%v\n", err)
			} else if !wanted {
				err = errors.New("the cluster does not use the driver")
			}
			return err
		}) != nil {
			return nil // a stop
		}
		return csidriver.New(csidriver.Config{
			Node: b.Config.Name, Dir: volumesDir, KubeletDir: kubeletDir, Cluster: api,
			Disks: host.NewVolumes(imagesDir, filepath.Join(volumesDir, storage.VolumesDir)),
			Log:   slog.New(slog.NewTextHandler(log, nil)),
		}).Run(ctx)
	}
}
