// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package chart renders Helm charts with the helm that the user has installed.
package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Options are those of `helm template`.
type Options struct {
	Values     []string // files; the last one counts
	Set        []string // key=value
	Kubernetes string   // version; "" for helm's default
}

// Rendered is the output of one template.
type Rendered struct {
	File           string // the template
	Template, Text []byte
}

// ErrNoHelm means that there is no helm to render with.
var ErrNoHelm = errors.New("helm is not installed")

// Render renders the chart in a folder. It asks no cluster.
func Render(ctx context.Context, dir string, o Options) ([]Rendered, error) {
	helm, err := exec.LookPath("helm")
	if err != nil {
		return nil, ErrNoHelm
	}
	cmd := exec.CommandContext(ctx, helm, o.args(dir)...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text := strings.TrimPrefix(strings.TrimSpace(problem.String()), "Error: ")
		return nil, fmt.Errorf("%s: %w: %s", helm, err, text)
	}
	return split(dir, out.String()), nil
}

// args returns helm's arguments.
func (o Options) args(dir string) []string {
	out := []string{"template", "release-name", dir}
	for _, v := range o.Values {
		out = append(out, "--values", v)
	}
	for _, s := range o.Set {
		out = append(out, "--set", s)
	}
	if o.Kubernetes != "" {
		out = append(out, "--kube-version", o.Kubernetes)
	}
	return out
}

// sourceComment begins the line in which helm names the template of a document.
// https://helm.sh/docs/helm/helm_template/
const sourceComment = "# Source: "

// split divides helm's output by templates. A template may have several
// documents, each with a comment of its own.
func split(dir, text string) []Rendered {
	var out []Rendered
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimLeft(doc, "\n"), "\n")
		source, _ := strings.CutPrefix(first, sourceComment)
		_, below, _ := strings.Cut(source, "/") // without the name of the chart
		file := filepath.Join(dir, filepath.FromSlash(below))
		if n := len(out); n == 0 || out[n-1].File != file {
			template, err := os.ReadFile(file)
			if err != nil {
				template = nil // the chart is an archive
			}
			out = append(out, Rendered{File: file, Template: template})
		}
		last := &out[len(out)-1]
		last.Text = append(append(last.Text, "---\n"...), doc+"\n"...)
	}
	return out
}
