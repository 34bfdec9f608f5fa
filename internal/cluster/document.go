// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Version and kind of the file that describes a cluster.
const (
	documentVersion = "mullion.dev/v1alpha1"
	documentKind    = "Cluster"
)

// maxDocument bounds the file, in bytes.
const maxDocument = 1 << 20

// Document is the file for `mullion up --config`: the values of the flags that describe a
// cluster. The flags for its location and for the timeout have no field in it.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name of the cluster; "" leaves it to the command line.
	Name string `json:"name,omitempty"`
	Choice
}

// NewDocument describes a cluster that exists, or is planned.
func NewDocument(c Config) Document {
	return Document{APIVersion: documentVersion, Kind: documentKind, Name: c.Name, Choice: c.choice()}
}

// Marshal returns the document as YAML.
func (d Document) Marshal() ([]byte, error) {
	data, err := yaml.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("print cluster: %w", err)
	}
	return data, nil
}

// ReadDocument reads a document strictly: unknown fields, fields given twice, and
// further documents are errors.
func ReadDocument(r io.Reader) (Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return Document{}, err
	}
	if len(data) > maxDocument {
		return Document{}, fmt.Errorf("more than %d bytes", maxDocument)
	}
	return parseDocument(data)
}

func parseDocument(data []byte) (Document, error) {
	text, err := onlyDocument(data)
	if err != nil {
		return Document{}, err
	}
	var d Document
	strict, err := kjson.UnmarshalStrict(text, &d)
	if err != nil {
		return Document{}, err
	}
	if len(strict) > 0 {
		return Document{}, errors.Join(strict...)
	}
	if d.APIVersion != documentVersion || d.Kind != documentKind {
		return Document{}, fmt.Errorf("apiVersion %q, kind %q: this mullion reads apiVersion: %s, kind: %s",
			d.APIVersion, d.Kind, documentVersion, documentKind)
	}
	if d.Name != "" {
		if err := CheckName(d.Name); err != nil {
			return Document{}, err
		}
	}
	if err := d.Validate(); err != nil {
		if field, ok := errors.AsType[*fieldError](err); ok {
			err = fmt.Errorf("%s: %w", field.Field, field.Err)
		}
		return Document{}, err
	}
	return d, nil
}

// onlyDocument returns the one document of a YAML text, as JSON.
func onlyDocument(data []byte) ([]byte, error) {
	var found []byte
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSONStrict(doc)
		if err != nil {
			// The library's own prefix is meaningless to users.
			return nil, errors.New(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
		}
		if bytes.Equal(text, []byte("null")) {
			continue // comments
		}
		if found != nil {
			return nil, errors.New("more than one document")
		}
		found = text
	}
	if found == nil {
		return nil, errors.New("empty file")
	}
	return found, nil
}
