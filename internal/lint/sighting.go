// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"maps"
	"reflect"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// sighting is an object that a file has.
type sighting struct{ kind, namespace, name, file string }

// source reports whether pods may refer to keys of the object.
func (s sighting) source() bool { return s.kind == "ConfigMap" || s.kind == "Secret" }

// place returns the location of a document.
func (d *document) place() policy.Location { return policy.Location{World: d.world, File: d.name} }

// place returns the location of built objects.
func (b Build) place() policy.Location {
	return policy.Location{World: "build " + b.File, File: b.File}
}

// sight looks for the kind and the name in the text of a document, in the forms in
// which nearly all have them: parsing every document twice would take as long as
// checking it.
func sight(d document) (sighting, bool) {
	if d.problem != nil || d.world != "" {
		return sighting{}, false
	}
	s := sighting{kind: plain(after(d.text, "kind:")), file: d.name}
	meta := after(d.text, "metadata:")
	if t := bytes.TrimSpace(firstLine(meta)); len(t) > 0 && t[0] == '{' {
		s.name, s.namespace = inFlow(t, "name:"), inFlow(t, "namespace:")
	} else if _, block, ok := bytes.Cut(meta, []byte("\n")); ok {
		s.inBlock(block)
	}
	return s, s.kind != "" && s.name != ""
}

// after returns the text after a key at the beginning of a line.
func after(text []byte, key string) []byte {
	if rest, ok := bytes.CutPrefix(text, []byte(key)); ok {
		return rest
	}
	_, rest, _ := bytes.Cut(text, []byte("\n"+key))
	return rest
}

func firstLine(text []byte) []byte { return text[:lineLen(text)] }

// inBlock reads the name and the namespace of metadata in YAML's block style.
func (s *sighting) inBlock(text []byte) {
	depth := -1
	for len(text) > 0 {
		line := firstLine(text)
		text = text[min(len(line)+1, len(text)):]
		content := bytes.TrimLeft(line, " ")
		if len(bytes.TrimSpace(content)) == 0 || content[0] == '#' {
			continue
		}
		indented := len(line) - len(content)
		if depth < 0 {
			depth = indented
		}
		if indented == 0 || indented < depth {
			return
		}
		if indented > depth {
			continue
		}
		if rest, ok := bytes.CutPrefix(content, []byte("name:")); ok {
			s.name = plain(rest)
		} else if rest, ok := bytes.CutPrefix(content, []byte("namespace:")); ok {
			s.namespace = plain(rest)
		}
	}
}

// inFlow reads a value of a mapping in YAML's flow style.
func inFlow(text []byte, key string) string {
	for _, before := range []string{"{", " ", ","} {
		if _, rest, ok := bytes.Cut(text, []byte(before+key)); ok {
			if end := bytes.IndexAny(rest, ",}"); end >= 0 {
				rest = rest[:end]
			}
			return plain(rest)
		}
	}
	return ""
}

// plain returns the value on the rest of a line, without quotes and comments.
func plain(rest []byte) string {
	value, _, _ := strings.Cut(string(firstLine(rest)), " #")
	return strings.Trim(strings.TrimSpace(value), `"'`)
}

// doubts finds RuntimeClasses and Namespaces that the inputs have several times,
// with different content: it is not known which one counts.
type doubts map[string]map[string]tree.Value // kind, name

func (s doubts) add(object tree.Value) {
	kind, name := object.Find("kind").Str(), object.Find("metadata", "name").Str()
	if kind != "RuntimeClass" && kind != "Namespace" {
		return
	}
	if s[kind] == nil {
		s[kind] = map[string]tree.Value{}
	}
	if before, ok := s[kind][name]; ok && !reflect.DeepEqual(before.Raw(), object.Raw()) {
		object = tree.Value{}
	}
	s[kind][name] = object
}

// apply returns the facts without the ones in doubt. Namespaces in doubt are
// still known to exist. Rules report a missing RuntimeClass only if all are
// known.
func (s doubts) apply(facts *policy.Facts) *policy.Facts {
	out := *facts
	for name, object := range s["RuntimeClass"] {
		if !object.Set() {
			out.RuntimeClasses, out.SomeClasses = maps.Clone(out.RuntimeClasses), true
			delete(out.RuntimeClasses, name)
		}
	}
	for name, object := range s["Namespace"] {
		if !object.Set() {
			out.Namespaces = maps.Clone(out.Namespaces)
			out.Namespaces[name] = policy.Namespace{}
		}
	}
	return &out
}
