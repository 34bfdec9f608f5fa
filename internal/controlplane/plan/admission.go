// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plan

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
)

const (
	admissionFile       = "admission.json"
	admissionKubeconfig = "admission.kubeconfig"
)

// AdmissionAddress is where the webhooks listen: only the API server, which is
// in the same process, may reach them.
func AdmissionAddress(c config.Config) netip.AddrPort {
	return netip.AddrPortFrom(c.Loopback(), c.AdmissionPort)
}

// AdmissionClientCA returns the authority of the clients that may call the webhooks.
func AdmissionClientCA(c config.Config) string { return store(c).Cert(pki.AdmissionClientCA) }

// admission makes the API server present a certificate to webhooks
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers).
func admission(c config.Config) object {
	var plugins []object
	for _, name := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		plugins = append(plugins, object{"name": name, "configuration": object{
			"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
			"kubeConfigFile": generated(c, admissionKubeconfig),
		}})
	}
	return object{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
}

// webhookClient names the certificate for our own webhooks only: a user of the file is
// found by the host that the webhook has, and other webhooks get no certificate.
func webhookClient(c config.Config) kubeconfig.Config {
	leaf := store(c).Leaf(pki.AdmissionClient)
	k := kubeconfig.New()
	k.Users = []kubeconfig.User{{
		Name: AdmissionAddress(c).String(),
		User: kubeconfig.Credentials{Certificate: leaf, Key: leaf},
	}}
	return k
}
