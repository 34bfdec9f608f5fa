// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command debroot unpacks packages of Debian into a directory, without dpkg and root.
//
//	debroot -list FILE -o DIR [-mirror URL] [-cache DIR]
//	debroot -list FILE -update [-mirror URL]
//
// Each line of FILE is a package: "name version architecture path size sha256". Packages
// come from a mirror of Debian's archive: that of -mirror, of the variable
// MULLION_DEBIAN_MIRROR, or of this machine's apt on Debian. Instead of a package that left
// the mirror debroot takes the one of the same name in the signed index. Only the files
// that an emulated host needs are unpacked (keep.go). DIR/packages.json lists the packages
// that are inside.
//
// With -update it replaces all fields of FILE but the names by those of the index.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

func main() {
	syscall.Umask(0o022) // the modes of files are the same for every user
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stderr, debianKeys)
	stop()
	os.Exit(code)
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, out io.Writer, keys []byte) int {
	f := flag.NewFlagSet("debroot", flag.ContinueOnError)
	f.SetOutput(out)
	name := f.String("list", "", "the `file` with the packages")
	dir := f.String("o", "", "the `directory` to make")
	update := f.Bool("update", false, "update the list of packages to those of the mirror")
	address := f.String("mirror", os.Getenv(mirrorVariable),
		"the `address` of a mirror of Debian (default $"+mirrorVariable+", or that of this machine's apt)")
	cache := f.String("cache", "", "the `directory` for downloads (default .cache/debroot beside that of -o)")
	f.Usage = func() {
		fmt.Fprintln(out, "usage: debroot -list FILE (-o DIR | -update) [-mirror URL] [-cache DIR]")
		f.PrintDefaults()
	}
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *name == "" || (*dir == "") == !*update || f.NArg() > 0 {
		f.Usage()
		return 2
	}
	if *cache == "" && *dir != "" {
		*cache = filepath.Join(filepath.Dir(filepath.Clean(*dir)), ".cache/debroot")
	}
	b := builder{dir: filepath.Clean(*dir), cache: *cache, keys: keys, out: out, tty: isTerminal(out)}
	b.mirror = sync.OnceValues(func() (mirror, error) { return findMirror(*address, "/") })
	var err error
	if b.list, err = readList(*name, *update); err == nil {
		if *update {
			err = b.update(ctx, *name)
		} else {
			err = b.build(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(out, "debroot: error:", err)
		return 1
	}
	return 0
}

// isTerminal reports whether w is a terminal, or another device that no one stores.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
