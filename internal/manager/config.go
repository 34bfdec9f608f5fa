// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
)

// Config configures a manager. REST, Log, one of Listen and Listener, and one
// of URL and Service must be set.
type Config struct {
	// REST configures the requests to the API server. It is not changed.
	REST *rest.Config
	// Listen is the address of the webhooks, "127.0.0.1:9443"; Listener, if
	// set, is used instead, and closed at the end.
	Listen   string
	Listener net.Listener
	// URL is where the API server finds the webhooks, "https://127.0.0.1:9443";
	// or Service is, in a cluster.
	URL     string
	Service registration.Service
	// Namespace holds the certificates and the Lease; "" means mullion-system.
	// It is created if it does not exist.
	Namespace string
	// ClientCA is PEM: clients of the webhooks must present a certificate of
	// one of these authorities. If nil, clients need no certificate.
	ClientCA []byte
	// Health is the address of /livez and /readyz over plain HTTP; "" disables
	// them.
	Health string
	// Metrics is the address of /metrics over plain HTTP; "" disables metrics.
	Metrics string

	// OwnProcess means that the process runs only the manager, which then tunes
	// garbage collection.
	OwnProcess bool

	// RulesFailurePolicy, NoGMSA: as in registration.Config.
	RulesFailurePolicy admissionregistrationv1.FailurePolicyType
	NoGMSA             bool
	// RandomHostname gives pods with a GMSA their own host names, as upstream's
	// RANDOM_HOSTNAME does.
	RandomHostname bool
	// OwnerClusterRole is the ClusterRole with whose removal the certificates and
	// the webhook configurations go; "" means that they stay.
	OwnerClusterRole string

	// Admission is the treatment of findings in namespaces without labels for
	// it; "" means policy.AdmissionEnforce.
	Admission policy.Admission
	// WindowsTaint is added to every Windows node; the zero value means no taint.
	WindowsTaint policy.Taint
	// Storage provisions volumes of the class mullion-local, and makes the class.
	Storage bool
	// LeaderElection lets one of several managers run the controllers. All of
	// them answer webhooks.
	LeaderElection bool

	// DefaultOS is the operating system of pods that do not indicate one, in
	// namespaces that do not either: "linux" (the default) or "windows".
	DefaultOS string
	// Registry configures how registries are queried for the platforms of
	// images.
	Registry lookup.Config
	// Facts replaces the facts that are read from the cluster; nil means the cluster's facts.
	Facts webhook.Facts
	Log   *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, inventory.Namespace)
	if c.Service.Name != "" && c.Service.Namespace == "" {
		c.Service.Namespace = c.Namespace
	}
	return c
}

func (c Config) registration() registration.Config {
	return registration.Config{
		URL: c.URL, Service: c.Service, Namespace: c.Namespace,
		RulesFailurePolicy: c.RulesFailurePolicy, NoGMSA: c.NoGMSA,
	}
}

// Validate returns the errors in the configuration.
func (c Config) Validate() error {
	switch {
	case c.REST == nil:
		return errors.New("manager: no configuration of a client")
	case c.Log == nil:
		return errors.New("manager: no log")
	case c.DefaultOS != "" && c.DefaultOS != "linux" && c.DefaultOS != "windows":
		return fmt.Errorf("manager: default operating system %q: want linux or windows", c.DefaultOS)
	case (c.Listen == "") == (c.Listener == nil):
		return errors.New("manager: want either an address to listen on or a listener")
	}
	if c.ClientCA != nil && !x509.NewCertPool().AppendCertsFromPEM(c.ClientCA) {
		return errors.New("manager: the client CA holds no certificate in PEM")
	}
	if err := c.Admission.Validate(); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	if err := c.withDefaults().registration().Validate(); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	return nil
}
