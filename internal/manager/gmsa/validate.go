// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package gmsa

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Validate returns the webhook that decides which service account may use which
// GMSA.
func Validate(c Config) webhook.Handler {
	return func(ctx context.Context, r *webhook.Request) (webhook.Response, error) {
		if r.Kind.Kind != "Pod" {
			return refuse(http.StatusBadRequest, "expected a Pod object, got a %.64q", r.Kind.Kind), nil
		}
		v := validator{reader: reader{cluster: c.Cluster}, request: r, allowed: map[string]bool{}}
		switch r.Operation {
		case webhook.Create:
			return v.all(ctx, settings(r.Object)), nil
		case webhook.Update:
			return v.update(ctx), nil
		}
		return refuse(http.StatusBadRequest, "unexpected operation %.64q", r.Operation), nil
	}
}

type validator struct {
	reader
	request *webhook.Request
	allowed map[string]bool // names of credential specs that were checked
}

// update refuses changes of existing settings. Ephemeral containers may be
// added; they are judged as new ones.
func (v *validator) update(ctx context.Context) webhook.Response {
	old := byID(v.request.OldObject)
	var added []setting
	for _, s := range settings(v.request.Object) {
		before, there := old[s.id()]
		delete(old, s.id())
		if !there && s.list == "ephemeralContainers" && !has(v.request.OldObject, s) {
			added = append(added, s)
			continue
		}
		if changed := difference(before, s); changed != "" {
			return modified(changed, s)
		}
	}
	for _, s := range old {
		return modified(difference(s, setting{}), s)
	}
	return v.all(ctx, added)
}

// has reports whether the pod has the container, with a GMSA or not.
func has(pod map[string]any, s setting) bool {
	return slices.ContainsFunc(tree.Root(pod).Find("spec", s.list).Items(), func(c tree.Value) bool {
		name := text(c.Find("name"))
		return name != nil && *name == s.name
	})
}

func modified(what string, s setting) webhook.Response {
	return refuse(http.StatusForbidden, "cannot update an existing pod's GMSA settings (GMSA %s modified on %s)", what,
		s)
}

// difference names the fields in which two settings differ.
func difference(a, b setting) string {
	var out []string
	if !equal(a.spec, b.spec) {
		out = append(out, "name")
	}
	if !equal(a.contents, b.contents) {
		out = append(out, "contents")
	}
	return strings.Join(out, " and ")
}

func equal(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func (v *validator) all(ctx context.Context, all []setting) webhook.Response {
	for _, s := range all {
		if refusal := v.one(ctx, s); refusal != nil {
			return *refusal
		}
	}
	return webhook.Allow()
}

// one judges one setting; nil means that it is allowed.
func (v *validator) one(ctx context.Context, s setting) *webhook.Response {
	if s.spec == nil {
		out := refuse(http.StatusUnprocessableEntity, "%s has a GMSA cred spec set, but does not define the name of "+
			"the corresponding resource", s)
		return &out
	}
	if out := v.mayUse(ctx, *s.spec); out != nil {
		return out
	}
	want, refusal := v.contents(ctx, *s.spec)
	if refusal != nil {
		return refusal
	}
	if s.contents == nil {
		out := refuse(http.StatusServiceUnavailable,
			"the contents of cred spec %q were not filled in for %s: the webhook that does it did not answer; try "+
				"again",
			*s.spec, s)
		return &out
	}
	ok, err := sameJSON(*s.contents, want)
	if ok {
		return nil
	}
	out := refuse(http.StatusUnprocessableEntity, "the GMSA cred spec contents for %s does not match the contents of "+
		"GMSA resource %q", s, *s.spec)
	if err != nil {
		// Do not show the contents; only report that they are not JSON.
		out.Refusal.Message += ": they are not JSON"
	}
	return &out
}

// mayUse checks whether the pod's service account may use a credential spec.
func (v *validator) mayUse(ctx context.Context, spec string) *webhook.Response {
	if v.allowed[spec] {
		return nil
	}
	account := cmp.Or(tree.Root(v.request.Object).Find("spec", "serviceAccountName").Str(), "default")
	allowed, reason, err := v.cluster.MayUse(ctx, v.request.Namespace, account, spec)
	if err != nil {
		allowed, reason = false, "error when checking authz access: "+err.Error()
	}
	if allowed {
		v.allowed[spec] = true
		return nil
	}
	out := refuse(http.StatusForbidden, "service account %q is not authorized to `use` GMSA cred spec %q",
		account, spec)
	if reason != "" {
		out = refuse(http.StatusForbidden, "%s, reason: %q", out.Refusal.Message, reason)
	}
	return &out
}

// sameJSON compares a text as JSON with one that names no key twice. Of a key
// that is there twice Go takes the last value; Windows may take another, and so
// another account.
func sameJSON(a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	var x, y, strict any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		return false, err
	}
	twice, err := kjson.UnmarshalStrict([]byte(a), &strict, kjson.DisallowDuplicateFields)
	return reflect.DeepEqual(x, y) && len(twice) == 0, err
}

// reader reads each credential spec once for a request.
type reader struct {
	cluster Cluster
	read    map[string]string
}

func (r *reader) contents(ctx context.Context, name string) (string, *webhook.Response) {
	if s, ok := r.read[name]; ok {
		return s, nil
	}
	s, err := r.cluster.CredentialSpec(ctx, name)
	var out webhook.Response
	switch {
	case errors.Is(err, errNotFound):
		out = refuse(http.StatusNotFound, "cred spec %s does not exist", name)
	case errors.Is(err, errNoContents):
		out = refuse(http.StatusExpectationFailed, "cred spec %s does not have a credspec key", name)
	case err != nil:
		out = refuse(http.StatusInternalServerError, "unable to retrieve the contents of cred spec %s: %v", name, err)
	default:
		if r.read == nil {
			r.read = map[string]string{}
		}
		r.read[name] = s
		return s, nil
	}
	return "", &out
}
