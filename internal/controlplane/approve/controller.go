// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package approve

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
)

// Controller approves and denies the requests of a cluster.
type Controller struct {
	Client    kubernetes.Interface
	NodeCIDRs []netip.Prefix
	Reserved  []netip.Addr
	Log       *slog.Logger
}

// Run works until the context is cancelled.
func (c *Controller) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	defer factory.Shutdown()
	requests := factory.Certificates().V1().CertificateSigningRequests().Informer()
	w := controller.Watch{Log: c.Log, Queue: controller.NewQueue()}
	w.Handle = func(ctx context.Context, name string) error {
		if csr := controller.Find[certv1.CertificateSigningRequest](requests, name); csr != nil {
			return c.handle(ctx, csr)
		}
		return nil
	}
	return w.Run(ctx, []controller.Source{{Informer: requests,
		Handlers: controller.Changes(nil, func(csr *certv1.CertificateSigningRequest) {
			if _, _, ours := subject(csr); ours {
				w.Queue.Add(csr.Name)
			}
		})}}, factory)
}

// handle decides about one request. A kubelet requests its serving certificate within a second of
// registering, and again after about 15 minutes.
func (c *Controller) handle(ctx context.Context, csr *certv1.CertificateSigningRequest) error {
	node, token, ours := subject(csr)
	if !ours {
		return nil
	}
	f, err := c.facts(ctx, node, token)
	if err != nil {
		return err
	}
	verdict, reason := decide(csr, f)
	condition := certv1.CertificateSigningRequestCondition{Status: corev1.ConditionTrue, Message: reason}
	switch verdict {
	case ignore:
		return nil
	case wait:
		return fmt.Errorf("%w: %s", controller.ErrWait, reason)
	case approve:
		condition.Type, condition.Reason = certv1.CertificateApproved, "MullionApproved"
	case deny:
		condition.Type, condition.Reason = certv1.CertificateDenied, "MullionDenied"
	}
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, condition)
	if _, err := c.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr,
		metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the decision: %w", err)
	}
	c.Log.Info("decided about a certificate request", logkey.Name, csr.Name, logkey.Node, node, "verdict",
		verdict.String(), logkey.Reason, reason, "signer", csr.Spec.SignerName, "requester", csr.Spec.Username)
	return nil
}

func (c *Controller) facts(ctx context.Context, node, token string) (evidence, error) {
	f := evidence{NodeCIDRs: c.NodeCIDRs, Reserved: c.Reserved}
	if token != "" {
		name := bootstraputil.BootstrapTokenSecretName(token)
		secret, err := c.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return f, fmt.Errorf("read bootstrap token: %w", err)
		}
		if err == nil {
			f.Token = secret
		}
	}
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, fmt.Errorf("list nodes: %w", err)
	}
	f.Nodes = nodes.Items
	for i := range f.Nodes {
		if f.Nodes[i].Name == node {
			f.Node = &f.Nodes[i]
		}
	}
	return f, nil
}
