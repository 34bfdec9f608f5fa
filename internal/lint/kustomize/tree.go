// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kustomize

import (
	"encoding/binary"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// plainTree returns the tree of a node as kustomize would write it in JSON. It reports
// false for content that needs YAML's own rules: aliases, merge keys, timestamps,
// numbers in unusual notations, duplicate keys.
func plainTree(n *yaml.Node) (any, bool) {
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" {
				return nil, false
			}
			v, ok := plainTree(n.Content[i+1])
			if _, twice := out[k.Value]; !ok || twice {
				return nil, false
			}
			out[k.Value] = v
		}
		return out, true
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, ok := plainTree(c)
			if !ok {
				return nil, false
			}
			out[i] = v
		}
		return out, true
	case yaml.ScalarNode:
		return plainScalar(n)
	}
	return nil, false
}

func plainScalar(n *yaml.Node) (any, bool) {
	switch n.ShortTag() {
	case "!!str":
		return n.Value, true
	case "!!null":
		return nil, n.Value != "" // in {a}, kustomize writes an empty string
	case "!!bool":
		return n.Value == "true", n.Value == "true" || n.Value == "false"
	case "!!int":
		i, err := strconv.Atoi(n.Value)
		return float64(i), err == nil && strconv.Itoa(i) == n.Value // not 0755
	case "!!float":
		f, err := strconv.ParseFloat(n.Value, 64)
		return f, err == nil && strconv.FormatFloat(f, 'f', -1, 64) == n.Value
	}
	return nil, false
}

// appendNode appends the properties that plainTree depends on.
func appendNode(out []byte, n *yaml.Node) []byte {
	out = append(out, byte(n.Kind))
	out = append(out, n.ShortTag()...)
	out = binary.AppendUvarint(out, uint64(len(n.Value)))
	out = append(out, n.Value...)
	out = binary.AppendUvarint(out, uint64(len(n.Content)))
	for _, c := range n.Content {
		out = appendNode(out, c)
	}
	return out
}
