// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package registration

import (
	"errors"
	"fmt"
	"net/url"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the name of both configurations.
const Name = "mullion"

// The names of the webhooks: kubectl prints them with every refusal. GMSA has
// one in each configuration.
const (
	PlacementWebhook  = "placement.mullion.dev"
	DaemonSetsWebhook = "daemonsets.mullion.dev"
	RulesWebhook      = "rules.mullion.dev"
	PodRulesWebhook   = "pods.rules.mullion.dev"
	GMSAWebhook       = "gmsa.mullion.dev"
	ClassesWebhook    = "runtimeclasses.mullion.dev"
)

// The paths of the webhooks.
const (
	PlacementPath    = "/placement"
	RulesPath        = "/rules"
	ClassesPath      = "/runtimeclasses"
	MutateGMSAPath   = "/gmsa/mutate"
	ValidateGMSAPath = "/gmsa/validate"
)

// disabledLabel on a namespace, with the value "true", keeps all webhooks off
// its objects. (policy.SkipAnnotation keeps placement off one pod.)
const disabledLabel = "admission.mullion.dev/disabled"

// Service is where the API server finds the webhooks in a cluster.
type Service struct {
	Namespace, Name string
}

// Host is the name that the serving certificate must have.
func (s Service) Host() string { return s.Name + "." + s.Namespace + ".svc" }

// Config sets the address of the webhooks and the failure policy.
type Config struct {
	// URL is where the API server finds the webhooks, without a path:
	// https://127.0.0.1:9443. Either it or Service is set.
	URL     string
	Service Service
	// Namespace is the manager's own; the webhooks do not review it.
	Namespace string
	// CABundle is PEM: the authorities that may have signed the serving
	// certificate.
	CABundle []byte
	// RulesFailurePolicy applies to an object when the webhook cannot be
	// reached: Ignore (the default) or Fail.
	RulesFailurePolicy admissionregistrationv1.FailurePolicyType
	// NoGMSA leaves the GMSA webhooks out, where upstream's own are installed.
	NoGMSA bool
	// Owner, if not nil, is the object with which the configurations are garbage
	// collected: an installation is removed as a whole, although the manager
	// itself made this part of it.
	Owner *metav1.OwnerReference
}

// Validate returns an error if the configuration is invalid.
func (c Config) Validate() error {
	switch hasURL, hasService := c.URL != "", c.Service != (Service{}); {
	case hasURL == hasService:
		return errors.New("address of the webhooks: want either a URL or a Service")
	case hasURL:
		u, err := url.Parse(c.URL)
		if err != nil {
			return fmt.Errorf("address of the webhooks: %w", err)
		}
		if u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" ||
			u.User != nil {
			return fmt.Errorf("address of the webhooks %q: want https://HOST:PORT only", c.URL)
		}
	case c.Service.Namespace == "" || c.Service.Name == "":
		return errors.New("address of the webhooks: the Service needs a namespace and a name")
	}
	if c.Namespace == "" {
		return errors.New("the manager's own namespace is not set")
	}
	switch c.RulesFailurePolicy {
	case "", admissionregistrationv1.Ignore, admissionregistrationv1.Fail:
		return nil
	}
	return fmt.Errorf("failure policy %q: want Ignore or Fail", c.RulesFailurePolicy)
}

func (c Config) client(path string) admissionregistrationv1.WebhookClientConfig {
	out := admissionregistrationv1.WebhookClientConfig{CABundle: c.CABundle}
	if c.URL != "" {
		u := c.URL + path
		out.URL = &u
		return out
	}
	out.Service = &admissionregistrationv1.ServiceReference{
		Namespace: c.Service.Namespace,
		Name:      c.Service.Name,
		Path:      &path,
		Port:      new(int32(443)),
	}
	return out
}
