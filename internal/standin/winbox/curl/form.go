// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"path"
	"strings"
)

// A part is one field of a multipart form.
type part struct {
	name, filename, contentType string
	hasFilename                 bool
	content                     []byte
	headers                     []string
}

func (p *parser) formString(value string, _ bool) error {
	name, content, ok := strings.Cut(value, "=")
	if !ok {
		p.warnf("Illegally formatted input field")
		return errBadUse
	}
	p.op.parts, p.op.hasForm = append(p.op.parts, part{name: name, content: []byte(content)}), true
	return nil
}

// form reads --form: name=content, name=@file or name=<file, with ";type=",
// ";filename=", ";headers=" and ";encoder=" after it.
func (p *parser) form(value string, _ bool) error {
	name, rest, ok := strings.Cut(value, "=")
	if !ok {
		p.warnf("Illegally formatted input field")
		return errBadUse
	}
	p.op.hasForm = true
	switch {
	case strings.HasPrefix(rest, "("), strings.HasPrefix(rest, ")"):
		p.errorf("nested multiparts are not supported by mullion's curl")
		return errNotBuilt
	case strings.HasPrefix(rest, "@"):
		// Several files, separated by commas, are parts of the same name.
		for rest != "" {
			field := part{name: name}
			var file string
			var err error
			if file, rest, err = p.formField(&field, rest[1:], true); err != nil {
				return err
			}
			if field.content, err = p.formFile(file); err != nil {
				return err
			}
			if !field.hasFilename {
				field.filename, field.hasFilename = baseName(file), true
			}
			if field.contentType == "" {
				field.contentType = contentType(field.filename)
			}
			p.op.parts = append(p.op.parts, field)
		}
		return nil
	}
	field := part{name: name}
	file, fromFile := strings.CutPrefix(rest, "<")
	content, _, err := p.formField(&field, file, false)
	if err != nil {
		return err
	}
	field.content = []byte(content)
	if fromFile {
		if field.content, err = p.formFile(content); err != nil {
			return err
		}
	}
	p.op.parts = append(p.op.parts, field)
	return nil
}

// formFile reads a file of a form. curl opens it when the transfer begins; a
// file that is missing ends curl with 26 either way.
func (p *parser) formFile(name string) ([]byte, error) {
	data, err := p.read(name)
	if err != nil {
		p.op.parts = append(p.op.parts, part{})
		return nil, &failure{code: exitRead, text: "Failed to open/read local data from file/application"}
	}
	return data, nil
}

// formField reads content and parameters up to the end, or up to a comma if
// there may be more files, and returns what follows with its comma.
func (p *parser) formField(field *part, s string, commas bool) (content, rest string, err error) {
	ends := ";"
	if commas {
		ends = ",;"
	}
	content, s = word(s, ends)
	for strings.HasPrefix(s, ";") {
		var parameter string
		// A value in quotes may hold separators.
		s = strings.TrimLeft(s[1:], " \t")
		i := strings.IndexAny(s, "="+ends)
		if i < 0 || s[i] != '=' {
			parameter, s = word(s, ends)
			p.warnf("skip unknown form field: %s", parameter)
			continue
		}
		parameter = s[:i]
		var v string
		v, s = word(s[i+1:], ends)
		switch strings.ToLower(parameter) {
		case "type":
			field.contentType = v
			// Parameters of the type belong to it: "text/html; charset=UTF-8".
			for strings.HasPrefix(s, ";") && isTypeParameter(s[1:]) {
				v, s = word(s[1:], ends)
				field.contentType += ";" + v
			}
		case "filename":
			field.filename, field.hasFilename = v, true
		case "headers":
			if err := p.addHeaders(&field.headers, v, "form"); err != nil {
				return "", "", err
			}
		case "encoder":
			return "", "", errNotBuilt
		default:
			p.warnf("skip unknown form field: %s", parameter)
		}
	}
	return content, s, nil
}

// isTypeParameter reports whether a parameter is none of a form's own.
func isTypeParameter(s string) bool {
	name, _, ok := strings.Cut(strings.TrimLeft(s, " \t"), "=")
	switch strings.ToLower(name) {
	case "type", "filename", "headers", "encoder":
		return false
	}
	return ok
}

// word reads up to one of the ends; a word in double quotes may hold them.
func word(s, ends string) (value, rest string) {
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		var b strings.Builder
		for i := 0; i < len(quoted); i++ {
			switch c := quoted[i]; {
			case c == '\\' && i+1 < len(quoted) && strings.IndexByte(`\"`, quoted[i+1]) >= 0:
				i++
				b.WriteByte(quoted[i])
			case c == '"':
				after := quoted[i+1:]
				if j := strings.IndexAny(after, ends); j >= 0 {
					return b.String(), after[j:]
				}
				return b.String(), ""
			default:
				b.WriteByte(c)
			}
		}
	}
	if i := strings.IndexAny(s, ends); i >= 0 {
		return strings.TrimRight(s[:i], " \t"), s[i:]
	}
	return s, ""
}

func baseName(name string) string {
	return path.Base(strings.ReplaceAll(name, `\`, "/"))
}

// contentType guesses from a name as lib/mime.c does.
func contentType(name string) string {
	for _, t := range [][2]string{
		{".gif", "image/gif"}, {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"}, {".png", "image/png"},
		{".svg", "image/svg+xml"}, {".txt", "text/plain"}, {".htm", "text/html"}, {".html", "text/html"},
		{".pdf", "application/pdf"}, {".xml", "application/xml"},
	} {
		if strings.HasSuffix(strings.ToLower(name), t[0]) {
			return t[1]
		}
	}
	return "application/octet-stream"
}

// multipartBody returns a form's body and its content type.
func multipartBody(parts []part, percent bool) ([]byte, string, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("------------------------" + rand.Text()[:22]); err != nil {
		return nil, "", err
	}
	quote := strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace
	if percent {
		quote = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	}
	for _, p := range parts {
		h := textproto.MIMEHeader{}
		disposition := fmt.Sprintf(`form-data; name="%s"`, quote(p.name))
		if p.hasFilename {
			disposition += fmt.Sprintf(`; filename="%s"`, quote(p.filename))
		}
		h.Set("Content-Disposition", disposition)
		if p.contentType != "" {
			h.Set("Content-Type", p.contentType)
		}
		for _, line := range p.headers {
			if name, value, ok := strings.Cut(line, ":"); ok {
				h.Set(name, strings.TrimSpace(value))
			}
		}
		f, err := w.CreatePart(h)
		if err != nil {
			return nil, "", err
		}
		if _, err := f.Write(p.content); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}
