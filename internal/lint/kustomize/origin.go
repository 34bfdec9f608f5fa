// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kustomize

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// originKey is the annotation that carries the file of a resource through a build.
// kustomize's own buildMetadata does the same, and also notes each transformer in
// each resource: that takes a quarter of the time of a build.
const originKey = "lint.mullion.dev/origin"

// mark returns the text of a resource with the annotation in each object; the same
// text if it cannot be read, of which kustomize tells.
func mark(text []byte, path string) []byte {
	var out bytes.Buffer
	from, to := yaml.NewDecoder(bytes.NewReader(text)), yaml.NewEncoder(&out)
	for {
		var doc yaml.Node
		if err := from.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return text
		}
		if len(doc.Content) == 0 {
			continue
		}
		markObject(doc.Content[0], path)
		if err := to.Encode(&doc); err != nil {
			return text
		}
	}
	if err := to.Close(); err != nil {
		return text
	}
	return out.Bytes()
}

// markObject marks an object, or the items of a List.
func markObject(object *yaml.Node, path string) {
	if kind := value(object, "kind"); kind != nil && strings.HasSuffix(kind.Value, "List") {
		if items := value(object, "items"); items != nil && items.Kind == yaml.SequenceNode {
			for _, item := range items.Content {
				markObject(item, path)
			}
			return
		}
	}
	meta := value(object, "metadata")
	if meta == nil || meta.Kind != yaml.MappingNode {
		return
	}
	notes := value(meta, "annotations")
	switch {
	case notes == nil:
		notes = &yaml.Node{Kind: yaml.MappingNode}
		meta.Content = append(meta.Content, scalar("annotations"), notes)
	case notes.Tag == "!!null":
		*notes = yaml.Node{Kind: yaml.MappingNode}
	case notes.Kind != yaml.MappingNode:
		return
	}
	notes.Content = append(notes.Content, scalar(originKey), scalar(path))
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// value returns the value of a key of a mapping; nil if there is none.
func value(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// takeOrigin removes the annotation from an object, and returns the file.
func takeOrigin(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	notes, _ := meta["annotations"].(map[string]any)
	path, _ := notes[originKey].(string)
	delete(notes, originKey)
	if notes != nil && len(notes) == 0 {
		delete(meta, "annotations") // there was nothing else
	}
	return path
}
