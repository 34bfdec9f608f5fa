// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hosttest

import (
	"errors"
	"sort"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// Registry is a Registry in memory: the values of each key by their lower-case
// names.
type Registry map[string]map[string]host.RegValue

func (f Registry) find(path string) (string, bool) {
	for k := range f {
		if strings.EqualFold(k, path) {
			return k, true
		}
	}
	return path, false
}

var errNoKey = errors.New("the key does not exist")

// Exists reports whether a key exists.
func (f Registry) Exists(path string) bool { _, ok := f.find(path); return ok }

// Keys lists the keys directly below a key.
func (f Registry) Keys(path string) ([]string, error) {
	if !f.Exists(path) {
		return nil, errNoKey
	}
	var out []string
	for k := range f {
		if len(k) > len(path)+1 && strings.EqualFold(k[:len(path)+1], path+`\`) &&
			!strings.Contains(k[len(path)+1:], `\`) {
			out = append(out, k[len(path)+1:])
		}
	}
	sort.Strings(out)
	return out, nil
}

// Values lists the values of a key.
func (f Registry) Values(path string) ([]host.RegValue, error) {
	k, ok := f.find(path)
	if !ok {
		return nil, errNoKey
	}
	var out []host.RegValue
	for _, v := range f[k] {
		out = append(out, v)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// CreateKey creates a key and the keys above it.
func (f Registry) CreateKey(path string) error {
	for i := range path + `\` {
		if i == len(path) || path[i] == '\\' {
			if k, ok := f.find(path[:i]); !ok {
				f[k] = map[string]host.RegValue{}
			}
		}
	}
	return nil
}

// DeleteKey removes a key.
func (f Registry) DeleteKey(path string) error {
	k, ok := f.find(path)
	if !ok {
		return errNoKey
	}
	delete(f, k)
	return nil
}

// SetValue sets a value.
func (f Registry) SetValue(path string, v host.RegValue) error {
	k, ok := f.find(path)
	if !ok {
		return errNoKey
	}
	f[k][strings.ToLower(v.Name)] = v
	return nil
}

// DeleteValue removes a value.
func (f Registry) DeleteValue(path, name string) error {
	k, ok := f.find(path)
	if !ok {
		return errNoKey
	}
	if _, ok := f[k][strings.ToLower(name)]; !ok {
		return errNoKey
	}
	delete(f[k], strings.ToLower(name))
	return nil
}
