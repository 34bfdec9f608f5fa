// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package chart renders Helm charts with the helm that the user has installed, for
// `mullion lint --chart`.
package chart

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are the options of `helm template`.
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

// Render renders the chart in a folder. It does not contact a cluster.
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
		// Warnings may stand before the error.
		text := strings.TrimSpace(problem.String())
		if i := strings.LastIndex("\n"+text, "\nError: "); i >= 0 {
			text = text[i+len("Error: "):]
		}
		text, _, _ = strings.Cut(text, "\n\nUse --debug") // which lint has not
		return nil, errors.New(cmp.Or(text, fmt.Sprintf("%s: %v", helm, err)))
	}
	return split(dir, out.String()), nil
}

// Hint suggests a remedy for a chart that helm cannot render.
func Hint(dir string, err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "dependencies"):
		return "fetch the charts that it needs: helm dependency build " + dir
	case strings.Contains(text, "execution error") || strings.Contains(text, "values don't meet"):
		return "give the values that it needs: --values FILE or --set KEY=VALUE"
	}
	return "see the whole message: helm template " + dir
}

// args returns helm's arguments.
func (o Options) args(dir string) []string {
	out := []string{"template", release(dir), dir}
	// The APIs of an API server that helm's own list lacks: charts check for them.
	for _, api := range []string{"apiregistration.k8s.io/v1", "apiregistration.k8s.io/v1/APIService"} {
		out = append(out, "--api-versions", api)
	}
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

// maxRelease is the length up to which helm takes names of releases.
const maxRelease = 53

// release returns the name of the chart as the release name, as many users have it:
// objects whose names begin with the release name don't get longer names than they
// need.
func release(dir string) string {
	var chart struct{ Name string }
	text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil || yaml.Unmarshal(text, &chart) != nil || len(chart.Name) > maxRelease ||
		len(validation.IsDNS1123Label(chart.Name)) > 0 {
		return "release-name" // as helm itself
	}
	return chart.Name
}

// sourceComment begins the line in which helm names the template of a document.
// https://helm.sh/docs/helm/helm_template/
const sourceComment = "# Source: "

// split divides helm's output by templates. A template may have several
// documents, each with its own comment.
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
