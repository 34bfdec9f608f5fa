// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kustomize

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/lint/plainyaml"
)

// originKey is the annotation that carries the file of a resource through a build.
// kustomize's own buildMetadata does the same, and also notes each transformer in
// each resource: that takes a quarter of the time of a build.
const originKey = "lint.mullion.dev/origin"

// mark returns the text of a resource with the annotation in each object, or the
// same text if it cannot be read, which kustomize reports.
func mark(text []byte, path string) []byte {
	if out, ok := markPlain(text, path); ok {
		return out
	}
	return markParsed(text, path)
}

// markParsed reads and writes the whole text.
func markParsed(text []byte, path string) []byte {
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

// markPlain writes lines into the text, if the objects are plain, which takes a fraction
// of the time.
func markPlain(text []byte, path string) ([]byte, bool) {
	quoted, err := json.Marshal(path)
	if err != nil {
		return nil, false
	}
	entry := originKey + ": " + string(quoted) + "\n"
	var out bytes.Buffer
	var lines [][]byte // of the document that is being read
	flush := func() bool {
		ok := markLines(&out, lines, entry)
		lines = lines[:0]
		return ok
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("---")) {
			if len(bytes.TrimRight(line, "\n")) > len("---") || !flush() {
				return nil, false
			}
			out.Write(line)
			continue
		}
		lines = append(lines, line)
	}
	if !flush() {
		return nil, false
	}
	return out.Bytes(), true
}

// markLines writes the lines of a document with an entry among the annotations. It
// reports false if they are not plain.
func markLines(out *bytes.Buffer, lines [][]byte, entry string) bool {
	document := bytes.Join(lines, nil)
	empty := func(line []byte) bool {
		// To YAML, these end a line and thus a comment, too.
		const others = "\r\u0085\u2028\u2029"
		return len(bytes.Trim(line, " \n")) == 0 || line[0] == '#' && !bytes.ContainsAny(line, others)
	}
	if !slices.ContainsFunc(lines, func(line []byte) bool { return !empty(line) }) {
		out.Write(document)
		return true
	}
	object, ok := plainyaml.Parse(document)
	if !ok {
		return false
	}
	if kind := value(object, "kind"); kind == nil || strings.HasSuffix(kind.Value, "List") {
		return false
	}
	meta := value(object, "metadata")
	if meta == nil || !block(meta) {
		return false
	}
	first, before := meta.Content[0], "annotations:\n"
	if notes := value(meta, "annotations"); notes != nil {
		if !block(notes) {
			return false
		}
		first, before = notes.Content[0], ""
	}
	indent := strings.Repeat(" ", first.Column-1)
	for i, line := range lines {
		if i == first.Line-1 {
			if before != "" {
				out.WriteString(indent + before + "  ")
			}
			out.WriteString(indent + entry)
		}
		out.Write(line)
	}
	return true
}

// block reports whether a mapping has entries that begin on lines of their own.
func block(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0
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

// value returns the value of a key of a mapping, or nil if it lacks the key.
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
		delete(meta, "annotations") // the map is empty now
	}
	return path
}
