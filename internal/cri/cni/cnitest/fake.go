// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cnitest has a stand-in for the CNI plugins, for the tests of cri/cni and cri/server.
package cnitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Fake is a cni.Runner that plays win-bridge with host-local: it hands out
// addresses of 10.244.0.0/24, takes them back, and records who has which.
type Fake struct {
	// Fail, if set, is called before each command ("ADD", "DEL").
	Fail func(command string) error

	mu   sync.Mutex
	held map[string]int // container ID to the last byte of its address; guarded by mu
	seen []string       // commands; guarded by mu
}

// RunPlugin implements cni.Runner.
func (f *Fake) RunPlugin(_ context.Context, exe string, env []string, stdin []byte) (stdout, stderr []byte, err error) {
	vars := map[string]string{}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		vars[k] = v
	}
	command, id := vars["CNI_COMMAND"], vars["CNI_CONTAINERID"]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, command)
	if f.Fail != nil {
		if err := f.Fail(command); err != nil {
			return fmt.Appendf(nil, `{"cniVersion":"0.4.0","code":999,"msg":%q}`, err.Error()), nil,
				errors.New("exit status 1")
		}
	}
	if f.held == nil {
		f.held = map[string]int{}
	}
	var conf struct {
		CNIVersion string `json:"cniVersion"`
	}
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, []byte(err.Error()), errors.New("exit status 1")
	}
	switch command {
	case "ADD":
		n := 2
		for f.taken(n) {
			n++
		}
		f.held[id] = n
		return fmt.Appendf(nil, `{"cniVersion":%q,"ips":[{"version":"4","address":"10.244.0.%d/24"}],"dns":{}}`,
			conf.CNIVersion, n), nil, nil
	case "DEL":
		delete(f.held, id)
	case "VERSION":
		return []byte(`{"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0"]}`),
			nil, nil
	}
	return nil, nil, nil
}

func (f *Fake) taken(n int) bool {
	return slices.Contains(slices.Collect(maps.Values(f.held)), n)
}

// Held lists the container IDs that have an address.
func (f *Fake) Held() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for id := range f.held {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Commands lists the commands so far, in order.
func (f *Fake) Commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}
