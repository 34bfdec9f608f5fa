// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command atomicwriter runs the kubelet's own AtomicWriter, which fills every
// configMap, secret, projected and downwardAPI volume, through a first write, an
// update and a removal.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/kubernetes/pkg/volume/util"
)

func main() {
	dir, err := os.MkdirTemp("", "volume")
	must(err)
	w, err := util.NewAtomicWriter(dir, "probe")
	must(err)
	file := func(s string) util.FileProjection { return util.FileProjection{Data: []byte(s), Mode: 0o644} }

	must(w.Write(map[string]util.FileProjection{"a": file("one"), "d/b": file("two")}, nil))
	expect(dir, "a", "one")
	expect(dir, `d\b`, "two")

	must(w.Write(map[string]util.FileProjection{"a": file("ONE"), "d/b": file("two"), "c": file("three")}, nil))
	expect(dir, "a", "ONE")
	expect(dir, `d\b`, "two")
	expect(dir, "c", "three")

	must(w.Write(map[string]util.FileProjection{"c": file("three")}, nil))
	expect(dir, "c", "three")
	for _, gone := range []string{"a", "d"} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			must(fmt.Errorf("%s is still there: %v", gone, err))
		}
	}
	entries, err := os.ReadDir(dir)
	must(err)
	if len(entries) != 3 { // the data, ..data, c
		must(fmt.Errorf("entries left: %v", entries))
	}
	must(os.RemoveAll(dir))
	fmt.Println("ok")
}

func expect(dir, name, want string) {
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(got) != want {
		must(fmt.Errorf("%s: %q %v, want %q", name, got, err, want))
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
