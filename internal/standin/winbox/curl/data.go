// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

func (p *parser) dataText(value string, _ bool) error {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return p.addData([]byte(value), "&")
	}
	data, err := p.readData(name)
	if err != nil {
		return err
	}
	return p.addData(dropLineEnds(data), "&")
}

func (p *parser) dataBinary(value string, _ bool) error { return p.dataExactly(value, "&") }

func (p *parser) dataRaw(value string, _ bool) error { return p.addData([]byte(value), "&") }

func (p *parser) json(value string, _ bool) error {
	p.op.isJSON = true
	return p.dataExactly(value, "")
}

func (p *parser) dataExactly(value, separator string) error {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return p.addData([]byte(value), separator)
	}
	data, err := p.readData(name)
	if err != nil {
		return err
	}
	return p.addData(data, separator)
}

func (p *parser) dataEncoded(value string, _ bool) error {
	data, err := p.urlEncoded(value)
	if err != nil {
		return err
	}
	return p.addData(data, "&")
}

func (p *parser) readData(name string) ([]byte, error) {
	data, err := p.read(name)
	if err != nil {
		p.errorf("Failed to open %s", name)
		return nil, errRead
	}
	return data, nil
}

func (p *parser) addData(data []byte, separator string) error {
	if len(p.op.data) > 0 {
		p.op.data = append(p.op.data, separator...)
	}
	p.op.data, p.op.hasData = append(p.op.data, data...), true
	return nil
}

// urlEncoded reads content, =content, name=content, @file or name@file.
func (p *parser) urlEncoded(value string) ([]byte, error) {
	i := strings.IndexByte(value, '=')
	if i < 0 {
		i = strings.IndexByte(value, '@')
	}
	if i < 0 {
		return []byte(escape(value, "+")), nil
	}
	name, content := value[:i], value[i+1:]
	if value[i] == '@' {
		data, err := p.readData(content)
		if err != nil {
			return nil, err
		}
		content = string(data)
	}
	if name != "" {
		name += "="
	}
	return []byte(name + escape(content, "+")), nil
}

// escape percent-encodes all but the unreserved characters of RFC 3986.
func escape(s, space string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteString(space)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// variable reads --variable: [%]name[=content|@file].
func (p *parser) variable(value string, _ bool) error {
	value, imported := strings.CutPrefix(value, "%")
	i := strings.IndexFunc(value, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if i < 0 {
		i = len(value)
	}
	name, rest := value[:i], value[i:]
	if name == "" || len(name) >= 128 {
		p.warnf("Bad variable name length (%d), skipping", len(name))
		return nil
	}
	if p.variables == nil {
		p.variables = map[string]string{}
	}
	if imported {
		if content := p.env.Getenv(name); content != "" {
			p.variables[name] = content
			return nil
		}
		if rest == "" {
			p.errorf("Variable '%s' import fail, not set", name)
			return errExpand
		}
	}
	switch {
	case strings.HasPrefix(rest, "="):
		p.variables[name] = rest[1:]
	case strings.HasPrefix(rest, "@"):
		data, err := p.readData(rest[1:])
		if err != nil {
			return err
		}
		p.variables[name] = string(data)
	default:
		p.warnf("Bad --variable syntax, skipping: %s", value)
		return errVariable
	}
	return nil
}

// expand replaces {{name:function}} by variables' values.
func (p *parser) expand(s string) (string, error) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "{{")
		if !ok {
			b.WriteString(s)
			return b.String(), nil
		}
		if strings.HasSuffix(before, `\`) {
			b.WriteString(before[:len(before)-1] + "{{")
			s = after
			continue
		}
		expression, rest, ok := strings.Cut(after, "}}")
		if !ok {
			p.warnf("missing close '}}' in '%s'", s)
			return "", errExpand
		}
		b.WriteString(before)
		name, functions, _ := strings.Cut(expression, ":")
		content, err := p.transform(p.variables[name], functions)
		if err != nil {
			return "", err
		}
		b.WriteString(content)
		s = rest
	}
}

// transform applies the functions after a variable's name.
func (p *parser) transform(content, functions string) (string, error) {
	if functions == "" {
		return content, nil
	}
	for f := range strings.SplitSeq(functions, ":") {
		switch f {
		case "trim":
			content = strings.TrimSpace(content)
		case "json":
			data, err := json.Marshal(content)
			if err != nil {
				return "", errExpand
			}
			content = string(data[1 : len(data)-1])
		case "url":
			content = escape(content, "%20")
		case "b64":
			content = base64.StdEncoding.EncodeToString([]byte(content))
		case "64dec":
			data, err := base64.StdEncoding.DecodeString(content)
			if err != nil {
				return "[64dec-fail]", nil
			}
			content = string(data)
		default:
			p.errorf("unknown variable function in '%s'", functions)
			return "", errExpand
		}
	}
	return content, nil
}
