// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linttest

import (
	_ "embed" // planted.txtar, sound.txtar
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed planted.txtar
var planted []byte

//go:embed sound.txtar
var sound []byte

// Mistake is an object with one error in it.
type Mistake struct {
	Name string // of the object
	File string // of the manifest
	Text string
	Code string // of the rule with which lint must report it, as an error
	Soft bool   // lint warns: other nodes may run it
	Says string // by the cluster, when it refuses the object or does not run its pod
}

// Planted returns all mistakes.
func Planted() ([]Mistake, error) {
	var out []Mistake
	for _, f := range txtar.Parse(planted).Files {
		m := Mistake{Name: strings.TrimSuffix(f.Name, ".yaml"), File: f.Name, Text: string(f.Data)}
		for line := range strings.Lines(m.Text) {
			if code, ok := strings.CutPrefix(line, "# lint: "); ok {
				m.Code, m.Soft = strings.CutSuffix(strings.TrimSpace(code), " warning")
			}
			if says, ok := strings.CutPrefix(line, "# cluster: "); ok {
				m.Says = strings.TrimSpace(says)
			}
		}
		if m.Code == "" || m.Says == "" {
			return nil, fmt.Errorf("planted.txtar: %s lacks a line of lint or of the cluster", f.Name)
		}
		out = append(out, m)
	}
	return out, nil
}

// Sound returns the manifests of objects without errors, by file.
func Sound() map[string]string {
	out := map[string]string{}
	for _, f := range txtar.Parse(sound).Files {
		out[f.Name] = string(f.Data)
	}
	return out
}
