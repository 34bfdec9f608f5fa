// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/nodeapi"
	"github.com/mullion-k8s/mullion/internal/storage/driver"
)

const (
	// volumesDir has the data of the class mullion-local.
	volumesDir = "/var/lib/mullion"
	// askAgain is the wait before the cluster is asked again whether it uses the driver.
	askAgain = 30 * time.Second
	// askSoon is the wait after an answer that is an error.
	askSoon = time.Second
)

// serveStorage runs the CSI driver, in clusters that use it.
func serveStorage(b boot, log io.Writer) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := nodeapi.New(b.Config.Server, b.Config.Name, b.CA, kubeletCertificate)
		if err != nil {
			return err
		}
		api := driver.API{Client: client}
		for {
			wanted, err := api.Wants(ctx)
			if err == nil && wanted {
				break
			}
			wait := askAgain
			if err != nil {
				fmt.Fprintf(log, "%v\n", err)
				wait = askSoon
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
		}
		return driver.New(driver.Config{
			Node: b.Config.Name, Dir: volumesDir, KubeletDir: kubeletDir, Cluster: api,
			Log: slog.New(slog.NewTextHandler(log, nil)),
		}).Run(ctx)
	}
}
