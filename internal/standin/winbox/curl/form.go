// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bytes"
	"cmp"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"path"
	"strings"
)

// A part is one field of a multipart form.
type part struct {
	name, filename, contentType string
	content                     []byte
}

// addPart reads --form: name=content, name=@file or name=<file, with ";type=" and
// ";filename=" after it. Quotes, several files in one field, headers, encoders
// and nested forms are refused.
func (c *client) addPart(value string, _ bool) error {
	name, rest, ok := strings.Cut(value, "=")
	if !ok {
		c.warnf("Illegally formatted input field")
		return errBadUse
	}
	if strings.ContainsAny(rest[:min(len(rest), 1)], `"()`) {
		return errNotBuilt
	}
	content, parameters, _ := strings.Cut(rest, ";")
	field := part{name: name, content: []byte(content)}
	for p := range strings.SplitSeq(parameters, ";") {
		key, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch key {
		case "":
		case "type":
			field.contentType = v
		case "filename":
			field.filename = v
		case "headers", "encoder":
			return errNotBuilt
		default:
			c.warnf("skip unknown form field: %s", p)
		}
	}
	if strings.IndexAny(content, "@<") == 0 {
		data, err := c.read(content[1:])
		if err != nil {
			return fail(exitRead, "Failed to open/read local data from file/application")
		}
		field.content = data
	}
	if strings.HasPrefix(content, "@") {
		field.filename = cmp.Or(field.filename, path.Base(strings.ReplaceAll(content[1:], `\`, "/")))
		field.contentType = cmp.Or(field.contentType, contentType(field.filename))
	}
	c.opts.parts = append(c.opts.parts, field)
	return nil
}

// contentType guesses from a name as lib/mime.c does.
func contentType(name string) string {
	types := map[string]string{
		".gif": "image/gif", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".svg": "image/svg+xml",
		".txt": "text/plain", ".htm": "text/html", ".html": "text/html", ".pdf": "application/pdf",
		".xml": "application/xml",
	}
	return cmp.Or(types[strings.ToLower(path.Ext(name))], "application/octet-stream")
}

// multipartBody returns a form's body and its content type.
func multipartBody(parts []part) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	quote := strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace
	for _, p := range parts {
		disposition := fmt.Sprintf(`form-data; name="%s"`, quote(p.name))
		if p.filename != "" {
			disposition += fmt.Sprintf(`; filename="%s"`, quote(p.filename))
		}
		header := textproto.MIMEHeader{"Content-Disposition": {disposition}}
		if p.contentType != "" {
			header.Set("Content-Type", p.contentType)
		}
		f, err := w.CreatePart(header)
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
