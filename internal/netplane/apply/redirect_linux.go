// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// setRedirects puts the table of an endpoint's redirections into its namespace, or takes it away. The alias of the
// inner end identifies the current table, so that no program is run for the many endpoints without one.
func setRedirects(ctx context.Context, s *kernel.Space, link netlink.Link, table string) error {
	want := ""
	if table != "" {
		sum := sha256.Sum256([]byte(table))
		want = compile.RedirectTable + " " + hex.EncodeToString(sum[:6])
	}
	if link.Attrs().Alias == want {
		return nil
	}
	name := "table ip " + compile.RedirectTable
	if err := s.Nft(ctx, "add "+name+"\ndelete "+name+"\n"+table); err != nil {
		return fmt.Errorf("redirect connections of %s: %w", link.Attrs().Name, err)
	}
	if err := s.Netlink.LinkSetAlias(link, want); err != nil {
		return fmt.Errorf("set alias of %s: %w", link.Attrs().Name, err)
	}
	return nil
}
