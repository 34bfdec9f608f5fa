// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hosttest implements package host with tables, so that tests and
// examples neither read nor change the machine.
package hosttest

import (
	"sort"
	"strings"
)

// Env is an Environment in memory. The case of names does not matter, as on
// Windows.
type Env map[string]string

func (f Env) key(name string) string {
	for k := range f {
		if strings.EqualFold(k, name) {
			return k
		}
	}
	return name
}

// Get returns a variable.
func (f Env) Get(name string) (string, bool) { v, ok := f[f.key(name)]; return v, ok }

// Set sets a variable.
func (f Env) Set(name, value string) error { f[f.key(name)] = value; return nil }

// Unset removes a variable.
func (f Env) Unset(name string) error { delete(f, f.key(name)); return nil }

// List returns the variables as NAME=value.
func (f Env) List() []string {
	var out []string
	for k, v := range f {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return out
}
