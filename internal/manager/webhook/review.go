// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const (
	apiVersion = "admission.k8s.io/v1"
	kind       = "AdmissionReview"

	// maxDepth: how deep an AdmissionReview may be nested. A pod is about 15 deep,
	// with its managed fields; package lint takes as much from files. Without a
	// limit a few megabytes of brackets cost gigabytes of stack.
	maxDepth = 200
)

// Operations that an API server sends for review.
const (
	Create = string(admissionv1.Create)
	Update = string(admissionv1.Update)
)

// Request is a question of the API server: may this be, and as it stands?
type Request struct {
	UID         types.UID               `json:"uid"`
	Kind        metav1.GroupVersionKind `json:"kind"`
	SubResource string                  `json:"subResource"`
	Name        string                  `json:"name"` // "" if the API server will make one
	Namespace   string                  `json:"namespace"`
	Operation   string                  `json:"operation"`
	UserInfo    struct {
		Username string `json:"username"`
	} `json:"userInfo"`
	// Object and OldObject are trees as encoding/json makes them; whole numbers
	// are int64. Object is set if the operation is Create or Update, OldObject
	// if it is Update.
	Object    map[string]any `json:"object"`
	OldObject map[string]any `json:"oldObject"`
	DryRun    bool           `json:"dryRun"`

	// Results of one handler, for the handlers of the same request after it.
	parsed     *policy.Parsed    // Object; nil until needed
	known      *answer           // about the cluster; nil until needed
	placements []place.Placement // nil if Object was not placed
}

// parse takes Object apart, once for all handlers.
func (r *Request) parse() *policy.Parsed {
	if r.parsed == nil {
		r.parsed = policy.Parse(r.Object)
	}
	return r.parsed
}

// after returns the request as it stands after an answer: with the edited
// object and the same cached results.
func (r *Request) after(resp Response) (*Request, error) {
	out := *r
	object, _, err := tree.Apply(r.Object, resp.Edits)
	if err != nil {
		return nil, fmt.Errorf("change the object: %w", err)
	}
	out.Object, out.parsed = object, nil
	return &out, nil
}

// Response is the answer.
type Response struct {
	Allowed bool
	// Refusal is the reason for a refusal; its Code and Reason are HTTP's and Kubernetes'.
	Refusal metav1.Status
	// Edits change the object, in their order.
	Edits []tree.Edit
	// Warnings are printed by kubectl.
	Warnings []string
	// Audit is written into the API server's audit log, under the webhook's name.
	Audit map[string]string
}

// Allow lets the object through as it is.
func Allow() Response { return Response{Allowed: true} }

// decode reads an AdmissionReview v1. Fields that are not known are passed
// over; a duplicate field is an error, because API server and webhook might not
// mean the same one.
func decode(body []byte) (*Request, error) {
	if err := checkDepth(body); err != nil {
		return nil, err
	}
	var review struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Request    *Request `json:"request"`
	}
	strict, err := kjson.UnmarshalStrict(body, &review, kjson.DisallowDuplicateFields)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return nil, fmt.Errorf("decode AdmissionReview: %w", err)
	}
	r := review.Request
	switch {
	case review.APIVersion != apiVersion || review.Kind != kind:
		return nil, fmt.Errorf("decode AdmissionReview: it is a %q of %q; want an AdmissionReview of "+
			"admission.k8s.io/v1", clip(review.Kind, 64), clip(review.APIVersion, 64))
	case r == nil:
		return nil, errors.New("decode AdmissionReview: it has no request")
	case r.UID == "":
		return nil, errors.New("decode AdmissionReview: the request has no uid")
	case (r.Operation == Create || r.Operation == Update) && r.Object == nil:
		return nil, fmt.Errorf("decode AdmissionReview: the operation %s has no object", r.Operation)
	case r.Operation == Update && r.OldObject == nil:
		return nil, errors.New("decode AdmissionReview: the operation UPDATE has no oldObject")
	}
	return r, nil
}

// checkDepth refuses text that is nested too deeply, before it is decoded.
// Brackets within strings do not count. The decoder refuses invalid JSON.
func checkDepth(body []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("decode AdmissionReview: nested more than %d deep", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// encode writes the answer to a request, within the API's limits.
func (r Response) encode(req *Request) ([]byte, error) {
	out := admissionv1.AdmissionResponse{
		UID:              req.UID,
		Allowed:          r.Allowed,
		Warnings:         boundWarnings(r.Warnings),
		AuditAnnotations: boundAudit(r.Audit),
	}
	if !r.Allowed {
		status := r.Refusal
		status.Message = clip(status.Message, maxMessage)
		status.Status = metav1.StatusFailure
		out.Result = &status
	}
	_, ops, err := tree.Apply(req.Object, r.Edits)
	if err != nil {
		return nil, fmt.Errorf("change the object: %w", err)
	}
	if len(ops) > 0 {
		patch, err := json.Marshal(ops)
		if err != nil {
			return nil, fmt.Errorf("encode patch: %w", err)
		}
		jsonPatch := admissionv1.PatchTypeJSONPatch
		out.Patch, out.PatchType = patch, &jsonPatch
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		Response: &out})
	if err != nil {
		return nil, fmt.Errorf("encode AdmissionReview: %w", err)
	}
	return body, nil
}
