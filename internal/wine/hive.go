// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"
)

// hive is a registry file of Wine (server/registry.c, "WINE REGISTRY Version
// 2"): a text with a header and then keys, each followed by its values. Editing
// the text while no wineserver holds it takes milliseconds; regedit.exe under
// Wine takes half a second for each file.
type hive struct {
	header []string
	keys   []*hiveKey // in the order of the file
}

type hiveKey struct {
	path   string   // as written, backslashes doubled: System\\Select
	suffix string   // the text after the bracket: the time
	attrs  []string // lines that begin with '#'
	values []hiveValue
}

// hiveValue is a value with its continuation lines, as written.
type hiveValue struct {
	name string // quoted, or "@" for the default value
	data string // everything after '='
}

func readHive(path string) (*hive, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read registry: %w", err)
	}
	h, err := parseHive(data)
	if err != nil {
		return nil, fmt.Errorf("read registry %s: %w", path, err)
	}
	return h, nil
}

func parseHive(data []byte) (*hive, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines[0] != "WINE REGISTRY Version 2" {
		return nil, fmt.Errorf("unknown format %.40q", lines[0])
	}
	h := &hive{}
	var key *hiveKey
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "["):
			end := strings.LastIndexByte(line, ']')
			if end < 0 {
				return nil, fmt.Errorf("line %d: key without end", i+1)
			}
			key = &hiveKey{path: line[1:end], suffix: line[end+1:]}
			h.keys = append(h.keys, key)
		case key == nil:
			h.header = append(h.header, line)
		case line == "":
		case strings.HasPrefix(line, "#"):
			key.attrs = append(key.attrs, line)
		default:
			for strings.HasSuffix(lines[i], `\`) {
				if i++; i == len(lines) || lines[i] == "" {
					return nil, fmt.Errorf("line %d: value without end", i)
				}
				line += "\n" + lines[i]
			}
			name, data, ok := cutValue(line)
			if !ok {
				return nil, fmt.Errorf("line %d: neither key nor value", i+1)
			}
			key.values = append(key.values, hiveValue{name, data})
		}
	}
	return h, nil
}

// cutValue splits `"name"=data`, where the name may hold `\"` and `=`.
func cutValue(line string) (name, data string, ok bool) {
	if strings.HasPrefix(line, "@=") {
		return "@", line[2:], true
	}
	if !strings.HasPrefix(line, `"`) {
		return "", "", false
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			if i+1 < len(line) && line[i+1] == '=' {
				return line[:i+1], line[i+2:], true
			}
			return "", "", false
		}
	}
	return "", "", false
}

func (h *hive) bytes() []byte {
	var b bytes.Buffer
	for _, l := range h.header {
		b.WriteString(l + "\n")
	}
	for _, k := range h.keys {
		fmt.Fprintf(&b, "[%s]%s\n", k.path, k.suffix)
		for _, a := range k.attrs {
			b.WriteString(a + "\n")
		}
		for _, v := range k.values {
			fmt.Fprintf(&b, "%s=%s\n", v.name, v.data)
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// key finds or makes a key. The path is written as usual, System\Select.
func (h *hive) key(path string) *hiveKey {
	quoted := quoteKey(path)
	for _, k := range h.keys {
		if strings.EqualFold(k.path, quoted) {
			return k
		}
	}
	k := &hiveKey{path: quoted, suffix: " 1"}
	h.keys = append(h.keys, k)
	return k
}

// remove takes a key and everything below it away.
func (h *hive) remove(path string) {
	quoted := strings.ToLower(quoteKey(path))
	h.keys = slices.DeleteFunc(h.keys, func(k *hiveKey) bool {
		p := strings.ToLower(k.path)
		return p == quoted || strings.HasPrefix(p, quoted+`\\`)
	})
}

// set writes a value of one of the Go types that stand for registry types:
// string (REG_SZ), expand (REG_EXPAND_SZ), uint32 (REG_DWORD) and []string
// (REG_MULTI_SZ).
func (k *hiveKey) set(name string, value any) {
	quoted, data := `@`, ""
	if name != "" {
		quoted = `"` + quoteString(name) + `"`
	}
	switch v := value.(type) {
	case string:
		data = `"` + quoteString(v) + `"`
	case expand:
		data = `str(2):"` + quoteString(string(v)) + `"`
	case []string:
		data = `str(7):"`
		for _, s := range v {
			data += quoteString(s) + `\0`
		}
		data += `"`
	case uint32:
		data = fmt.Sprintf("dword:%08x", v)
	default:
		panic(fmt.Sprintf("registry value %s of type %T", name, value))
	}
	for i := range k.values {
		if strings.EqualFold(k.values[i].name, quoted) {
			k.values[i].data = data
			return
		}
	}
	k.values = append(k.values, hiveValue{quoted, data})
}

// unset takes a value away.
func (k *hiveKey) unset(name string) {
	quoted := `"` + quoteString(name) + `"`
	k.values = slices.DeleteFunc(k.values, func(v hiveValue) bool { return strings.EqualFold(v.name, quoted) })
}

// expand is a string with %VARIABLES% in it.
type expand string

// quoteKey writes the path of a key the way Wine dumps it.
func quoteKey(path string) string {
	// CurrentControlSet is a link, and the file has the keys of its target.
	const link, target = `System\CurrentControlSet\`, `System\ControlSet001\`
	if len(path) > len(link) && strings.EqualFold(path[:len(link)], link) {
		path = target + path[len(link):]
	}
	var b strings.Builder
	for part := range strings.SplitSeq(path, `\`) {
		if b.Len() > 0 {
			b.WriteString(`\\`)
		}
		// A bracket would end the key's line early.
		b.WriteString(strings.ReplaceAll(quoteString(part), "]", `\]`))
	}
	return b.String()
}

// quoteString writes text the way Wine dumps it: ASCII as it is, backslash and
// quote escaped, the rest as UTF-16 units in hexadecimal.
func quoteString(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\' || r == '"':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\x%04x`, u)
			}
		}
	}
	return b.String()
}

// ValueNames lists the names of the values of a key of HKEY_LOCAL_MACHINE in a
// prefix. A running wineserver writes its changes to the file now and then, and
// when it ends.
func ValueNames(prefix, key string) ([]string, error) {
	h, err := readHive(filepath.Join(prefix, "system.reg"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range h.keys {
		if !strings.EqualFold(k.path, quoteKey(key)) {
			continue
		}
		for _, v := range k.values {
			if name, ok := strings.CutPrefix(v.name, `"`); ok {
				names = append(names, strings.TrimSuffix(name, `"`))
			}
		}
	}
	return names, nil
}
