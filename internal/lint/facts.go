// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// gather collects facts from the inputs themselves before anything is checked:
// their RuntimeClasses and Namespaces, the claims of volumes, and the workloads for
// Windows, which Services and volumes are judged by. In an input that is too
// large to be read twice, only the documents before a document count for it (see produce).
func gather(ctx context.Context, cfg Config) (*policy.Facts, error) {
	facts := &cfg.Facts
	objects := cfg.Facts.Objects.Clone()
	facts.Objects = objects
	facts.Related = facts.Related.With(nil, nil) // the producer adds its objects to the same one
	seen, doubts := facts.Related, doubts{}
	err := inOrder(ctx, cfg.Jobs,
		func(ctx context.Context, send func(*evidence) error) error {
			return produceEvidence(ctx, cfg, send, seen)
		},
		func(ctx context.Context, e *evidence) {
			for _, d := range e.docs {
				for _, o := range factualObjects(ctx, d) {
					e.objects = append(e.objects, atPlace{o, d.place()})
				}
			}
		},
		func(e *evidence) error {
			for _, o := range e.objects {
				facts = addObjectFacts(facts, o.Value, o.at)
				addObject(objects, o.Value)
				doubts.add(o.Value)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, b := range cfg.Builds {
		for _, o := range b.Objects {
			if !o.Partial {
				facts = addObjectFacts(facts, tree.Root(o.Object), b.place())
			}
			addObject(objects, tree.Root(o.Object))
			doubts.add(tree.Root(o.Object))
		}
	}
	return doubts.apply(facts), nil
}

// atPlace is an object at its place.
type atPlace struct {
	tree.Value
	at policy.Location
}

// addObject adds an object of the input, or the items of a List, to the known
// objects.
func addObject(known policy.Known, object tree.Value) {
	if known == nil {
		return
	}
	kind := object.Find("kind").Str()
	if kind == "List" {
		for _, item := range object.Find("items").Items() {
			if item.Find("kind").Str() != "List" {
				addObject(known, item)
			}
		}
		return
	}
	meta := object.Find("metadata")
	known.Add(kind, meta.Find("namespace").Str(), meta.Find("name").Str())
}

// evidence is a batch of documents with facts, and their objects.
type evidence struct {
	docs    []document
	objects []atPlace
}

// produceEvidence splits the inputs into batches of documents with facts.
// It notes which objects the inputs have.
func produceEvidence(ctx context.Context, cfg Config, send func(*evidence) error, seen policy.Related) error {
	e, size := &evidence{}, 0
	flush := func() error {
		full := e
		e, size = &evidence{}, 0
		return send(full)
	}
	for _, in := range cfg.Inputs {
		if in.Once || in.Found && expectation(in.Name) {
			continue
		}
		err := documents(ctx, in, func(d document) error {
			d.world = in.World
			s, ok := sight(d)
			if ok {
				seen.Seen(s.kind, s.namespace, s.name, s.file)
			}
			needed := ok && s.source() || mayHoldFacts(d.text) || mayBeNeeded(cfg.Facts.Objects, d.text)
			if d.problem != nil || !needed {
				return ctx.Err()
			}
			e.docs = append(e.docs, d)
			if size += len(d.text); size < batchBytes {
				return ctx.Err()
			}
			return flush()
		})
		if _, ok := errors.AsType[*readError](err); ok && ctx.Err() == nil {
			continue // Run reports it
		}
		if err != nil {
			return err
		}
	}
	return flush()
}

// addFacts adds the facts about the cluster in a document. It does not change the
// given facts, which are in use elsewhere.
func addFacts(ctx context.Context, facts *policy.Facts, d document) *policy.Facts {
	if d.problem == nil && mayHoldFacts(d.text) {
		for _, o := range factualObjects(ctx, d) {
			facts = addObjectFacts(facts, o, d.place())
		}
	}
	return facts
}

// factualObjects returns the objects of a document that can be read.
func factualObjects(ctx context.Context, d document) []tree.Value {
	var out []tree.Value
	for _, root := range parse(ctx, &d) {
		if root.problem != nil {
			continue
		}
		v, _ := convert(root.node)
		object, _ := detached(v).(map[string]any)
		out = append(out, tree.Root(object))
	}
	return out
}

// detached returns a copy of a value whose strings do not keep the whole text in
// memory that they are parts of: facts stay until the end of a run.
func detached(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Clone(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = detached(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[strings.Clone(k)] = detached(e)
		}
		return out
	}
	return v
}

// mayHoldFacts reports whether a document is worth parsing for its facts: it has
// their kinds, or a container in the same text as a word that makes a pod one for
// Windows. Most are not.
func mayHoldFacts(text []byte) bool {
	for _, kind := range []string{"RuntimeClass", "Namespace", "PersistentVolumeClaim"} {
		if bytes.Contains(text, []byte(kind)) {
			return true
		}
	}
	if !bytes.Contains(text, []byte("containers")) {
		return false
	}
	text = bytes.ToLower(text)
	for _, word := range []string{"windows", "nanoserver", "servercore", "ltsc20"} {
		if bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

// mayBeNeeded reports whether a document may hold an object of the kinds that are
// known.
func mayBeNeeded(known policy.Known, text []byte) bool {
	for kind := range known {
		if bytes.Contains(text, []byte(kind)) {
			return true
		}
	}
	return false
}

func addObjectFacts(facts *policy.Facts, object tree.Value, at policy.Location) *policy.Facts {
	name := object.Find("metadata", "name").Str()
	switch object.Find("kind").Str() {
	case "List":
		for _, item := range object.Find("items").Items() {
			if item.Find("kind").Str() != "List" {
				facts = addObjectFacts(facts, item, at)
			}
		}
	case "RuntimeClass":
		class := policy.RuntimeClass{
			Handler:      object.Find("handler").Str(),
			NodeSelector: object.Find("scheduling", "nodeSelector").Strings(),
		}
		for _, t := range object.Find("scheduling", "tolerations").Items() {
			class.Tolerations = append(class.Tolerations, policy.Toleration{
				Key:      t.Find("key").Str(),
				Operator: t.Find("operator").Str(),
				Value:    t.Find("value").Str(),
				Effect:   t.Find("effect").Str(),
			})
		}
		next := *facts
		next.SomeClasses = facts.SomeClasses || facts.RuntimeClasses == nil
		next.RuntimeClasses = map[string]policy.RuntimeClass{name: class}
		for k, v := range facts.RuntimeClasses {
			if k != name {
				next.RuntimeClasses[k] = v
			}
		}
		return &next
	case "Namespace":
		next := *facts
		if next.Namespaces = maps.Clone(facts.Namespaces); next.Namespaces == nil {
			next.Namespaces = map[string]policy.Namespace{}
		}
		meta := object.Find("metadata")
		next.Namespaces[name] = policy.NewNamespace(
			meta.Find("labels").Strings(), meta.Find("annotations").Strings())
		return &next
	}
	parsed := policy.Parse(object.Map())
	next := *facts
	next.Location = at
	workloads, claims, sources := parsed.Workloads(next), parsed.Claims(at), parsed.Sources(at)
	if len(workloads)+len(claims)+len(sources) == 0 {
		return facts
	}
	next.Location = facts.Location
	next.Related = facts.Related.With(workloads, claims, sources...)
	return &next
}
