// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/mullion-k8s/mullion/internal/lint/live"
	"github.com/mullion-k8s/mullion/internal/manager/facts"
	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Report lists the objects in a cluster that the webhooks of an installation
// would refuse.
type Report struct {
	Objects  int       `json:"objects"` // looked at
	Refusals []Refusal `json:"refusals"`
	Notes    []string  `json:"notes,omitempty"` // kinds that could not be read
}

// Refusal is one reason for which an object would be refused if it were created
// again.
type Refusal struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	By        string `json:"by"` // byEnforce or byStrict
	policy.Finding
}

// The values of Refusal.By.
const (
	byEnforce = "enforce" // --admission enforce, or the namespace's label with any --admission
	byStrict  = "strict"  // only the label admission.mullion.dev/enforce: strict
)

// MakeReport reads the cluster without changing it. It doesn't query registries,
// so images are judged by the nodes' reports and by their names.
func MakeReport(ctx context.Context, c *Cluster, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if err := c.check(); err != nil {
		return Report{}, err
	}
	known, notes, err := facts.Read(ctx, c.typed)
	if err != nil {
		return Report{}, err
	}
	var waived []string
	if !cfg.NoGMSA {
		waived = gmsa.WaivedRules()
	}
	r := Report{Notes: notes, Refusals: []Refusal{}}
	judge := rule.New(known)
	own := registration.Config{Namespace: cfg.Namespace}
	more, err := live.Objects(ctx, c.dynamic, "", func(object map[string]any) error {
		v := tree.Root(object)
		namespace := v.Find("metadata", "namespace").Str()
		if !registration.Judges(v.Find("kind").Str()) || own.Exempts(namespace, known.Namespaces[namespace].Labels) ||
			webhook.Exempt(object) {
			return nil
		}
		r.Objects++
		for _, f := range place.Check(judge, policy.Parse(object), known) {
			by := refusedBy(known.Namespaces[namespace].Labels, f.Severity)
			if by == "" || slices.Contains(waived, f.Code) || webhook.Suppressed(object, f.Code) {
				continue
			}
			r.Refusals = append(r.Refusals, Refusal{
				Namespace: namespace,
				Kind:      v.Find("kind").Str(),
				Name:      v.Find("metadata", "name").Str(),
				By:        by,
				Finding:   f,
			})
		}
		return ctx.Err()
	})
	r.Notes = append(r.Notes, more...)
	if err != nil {
		return Report{}, err
	}
	return r, nil
}

// refusedBy returns the mildest setting that refuses a finding in a namespace
// with labels, or "" if no setting does.
func refusedBy(labels map[string]string, s policy.Severity) string {
	switch {
	case webhook.Refuses(policy.AdmissionEnforce, labels, s):
		return byEnforce
	case s >= policy.Warning:
		return byStrict
	}
	return ""
}

// Count returns how many objects --admission enforce would refuse, and how many
// the level strict would.
func (r Report) Count() (enforce, strict int) {
	type object struct{ namespace, kind, name string }
	seen := map[string]map[object]bool{byEnforce: {}, byStrict: {}}
	for _, f := range r.Refusals {
		o := object{f.Namespace, f.Kind, f.Name}
		seen[f.By][o] = true
		seen[byStrict][o] = true // strict refuses everything that enforce does
	}
	return len(seen[byEnforce]), len(seen[byStrict])
}

// Print writes the report as a table or, if format is json, as one document.
func (r Report) Print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if len(r.Refusals) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tOBJECT\tREFUSED BY\tRULE\tFIELD\tPROBLEM")
	for _, f := range r.Refusals {
		fmt.Fprintf(t, "%s\t%s %s\t%s\t%s\t%s\t%s\n", f.Namespace, f.Kind, f.Name, f.By, f.Code, f.Field, f.Message)
	}
	return t.Flush()
}
