// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package gmsa

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Config configures the handling of pods with a GMSA.
type Config struct {
	Cluster Cluster
	// RandomHostname gives each pod with a GMSA a unique host name, if it does not
	// set one: domains confuse pods of one account and one name. Upstream's
	// RANDOM_HOSTNAME.
	RandomHostname bool
}

// WaivedRules lists the rules of package policy that do not hold where these webhooks
// run: that a name needs a webhook, and that upstream's overlooks init and
// ephemeral containers.
func WaivedRules() []string { return []string{"WIN318", "WIN510"} }

// Mutate returns the webhook that fills in the contents of credential specs.
func Mutate(c Config) webhook.Handler {
	return func(ctx context.Context, r *webhook.Request) (webhook.Response, error) {
		if r.Kind.Kind != "Pod" {
			return refuse(http.StatusBadRequest, "expected a Pod object, got a %.64q", r.Kind.Kind), nil
		}
		added := r.Operation == webhook.Update && r.SubResource == "ephemeralcontainers"
		if r.Operation != webhook.Create && !added {
			return webhook.Allow(), nil
		}
		var old map[string]setting
		if added {
			old = byID(r.OldObject)
		}
		read := reader{cluster: c.Cluster}
		resp := webhook.Allow()
		var filled []string
		uses := false
		for _, s := range settings(r.Object) {
			if _, there := old[s.id()]; there || added && s.list != "ephemeralContainers" {
				continue
			}
			uses = uses || s.spec != nil
			// Preset contents are validate's to compare.
			if s.spec == nil || s.contents != nil || len(validation.IsDNS1123Subdomain(*s.spec)) > 0 {
				continue
			}
			contents, refusal := read.contents(ctx, *s.spec)
			if refusal != nil {
				return *refusal, nil
			}
			resp.Edits = append(resp.Edits, tree.Edit{
				Op:    tree.Add,
				Path:  append(s.path, tree.Keys(contentsField)...),
				Value: contents,
			})
			filled = append(filled, fmt.Sprintf("%s of %s", *s.spec, s))
		}
		if c.RandomHostname && uses && !added && r.Object != nil {
			if name := tree.Root(r.Object).Get("spec", "hostname"); name.Str() == "" {
				resp.Edits = append(resp.Edits, tree.Edit{Op: tree.Add, Path: name.Path(), Value: hostname()})
			}
		}
		if len(filled) > 0 {
			resp.Audit = map[string]string{"filled-in": strings.Join(filled, ", ")}
		}
		return resp, nil
	}
}

// MutateThen returns a handler that fills in the contents of new pods, and then
// calls next: one request of the API server instead of two. It is registered
// for namespaces that opted out of GMSA too, so it checks for that.
//
// Unlike Mutate it may be registered to fail open: Validate refuses pods that
// were not filled in.
func MutateThen(c Config, next webhook.Handler) webhook.Handler {
	mutate := Mutate(c)
	return func(ctx context.Context, r *webhook.Request) (webhook.Response, error) {
		if r.Kind.Kind != "Pod" || len(settings(r.Object)) == 0 {
			return next(ctx, r)
		}
		if out, err := c.Cluster.OptedOut(ctx, r.Namespace); err != nil {
			return refuse(http.StatusInternalServerError, "is the namespace left to others: %v", err), nil
		} else if out {
			return next(ctx, r)
		}
		filled, err := mutate(ctx, r)
		if err != nil || !filled.Allowed {
			return filled, err
		}
		resp, err := next(ctx, r)
		if err != nil || !resp.Allowed {
			return resp, err
		}
		// The filled-in fields are added last: no path of it depends on what next
		// adds, and next does not take Windows options away.
		resp.Edits = append(resp.Edits, filled.Edits...)
		if len(filled.Audit) > 0 {
			maps.Copy(filled.Audit, resp.Audit)
			resp.Audit = filled.Audit
		}
		return resp, nil
	}
}

// hostname is a random host name. NetBIOS names have at most 15 characters; it
// begins with a letter, because Windows refuses names of digits alone.
func hostname() string { return "w" + strings.ToLower(rand.Text())[:14] }

// byID indexes the settings of a pod.
func byID(pod map[string]any) map[string]setting {
	out := map[string]setting{}
	for _, s := range settings(pod) {
		out[s.id()] = s
	}
	return out
}

// refuse is an answer with an HTTP code of upstream's.
func refuse(code int, format string, args ...any) webhook.Response {
	reason := map[int]metav1.StatusReason{
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusBadRequest:          metav1.StatusReasonBadRequest,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}[code]
	return webhook.Response{Refusal: metav1.Status{Code: int32(code), Reason: reason,
		Message: fmt.Sprintf(format, args...)}}
}
