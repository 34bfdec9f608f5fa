// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"maps"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// gather reads facts out of the inputs themselves before anything is judged:
// their RuntimeClasses and Namespaces. Of an input that cannot be read twice
// only what stands before a document counts for it (see produce).
func gather(ctx context.Context, cfg Config) (*policy.Facts, error) {
	facts := &cfg.Facts
	for _, in := range cfg.Inputs {
		if in.Once {
			continue
		}
		err := documents(in, func(d document) error {
			facts = learn(facts, d)
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	return facts, nil
}

// learn adds what a document says of the cluster. The facts that it is given
// are in use elsewhere and stay as they are.
func learn(facts *policy.Facts, d document) *policy.Facts {
	if d.problem != nil || !bytes.Contains(d.text, []byte("RuntimeClass")) && !bytes.Contains(d.text, []byte("Namespace")) {
		return facts
	}
	for _, root := range parse(&d) {
		if root.problem != nil {
			continue
		}
		v, _ := convert(root.node)
		object, _ := v.(map[string]any)
		facts = learnObject(facts, object)
	}
	return facts
}

func learnObject(facts *policy.Facts, object map[string]any) *policy.Facts {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	switch object["kind"] {
	case "List":
		items, _ := object["items"].([]any)
		for _, i := range items {
			if m, ok := i.(map[string]any); ok && m["kind"] != "List" {
				facts = learnObject(facts, m)
			}
		}
	case "RuntimeClass":
		handler, _ := object["handler"].(string)
		scheduling, _ := object["scheduling"].(map[string]any)
		class := policy.RuntimeClass{Handler: handler, NodeSelector: stringMap(scheduling["nodeSelector"])}
		tolerations, _ := scheduling["tolerations"].([]any)
		for _, t := range tolerations {
			m := stringMap(t)
			class.Tolerations = append(class.Tolerations, policy.Toleration{Key: m["key"], Operator: m["operator"], Value: m["value"], Effect: m["effect"]})
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
			next.Namespaces = map[string]map[string]string{}
		}
		next.Namespaces[name] = stringMap(meta["labels"])
		return &next
	}
	return facts
}

func stringMap(v any) map[string]string {
	m, _ := v.(map[string]any)
	out := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}
