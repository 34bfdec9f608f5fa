// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// document is the file of the service.
type document struct {
	// Boot names the boot of the host that the routes belong to.
	Boot   string  `json:"boot"`
	Routes []route `json:"routes,omitempty"`
	// Adapters are settings by the name of the link. They survive a reboot.
	Adapters map[string]settings `json:"adapters,omitempty"`
}

// route is one route that a program added.
type route struct {
	Link        string       `json:"link"`
	Destination netip.Prefix `json:"destination"`
	NextHop     netip.Addr   `json:"nextHop"` // unspecified: on the link
	Metric      uint32       `json:"metric"`
}

// same reports whether two routes are one entry of the table: only the metric of
// an entry can be changed.
func (r route) same(o route) bool {
	return r.Link == o.Link && r.Destination == o.Destination && r.NextHop == o.NextHop
}

// settings of an adapter that programs can change.
type settings struct {
	Forwarding            bool `json:"forwarding,omitempty"`
	WeakHostSend          bool `json:"weakHostSend,omitempty"`
	WeakHostReceive       bool `json:"weakHostReceive,omitempty"`
	Advertising           bool `json:"advertising,omitempty"`
	AdvertiseDefaultRoute bool `json:"advertiseDefaultRoute,omitempty"`
	// Metric, if not 0, is used instead of the automatic one.
	Metric uint32 `json:"metric,omitempty"`
}

// maxRoutes bounds the table: more peers than any host here has.
const maxRoutes = 4096

func (d *document) validate() error {
	if len(d.Routes) > maxRoutes {
		return fmt.Errorf("%d routes, the limit is %d", len(d.Routes), maxRoutes)
	}
	for _, r := range d.Routes {
		if err := checkRoute(r); err != nil {
			return fmt.Errorf("route to %s: %w", r.Destination, err)
		}
	}
	return nil
}

// load reads the file; one that is not there is empty.
func load(path string) (document, error) {
	d, err := durable.ReadDocument(path, (*document).validate)
	if errors.Is(err, fs.ErrNotExist) {
		return document{}, nil
	}
	return d, err
}
