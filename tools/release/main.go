// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command release packs the built programs for users without a compiler.
//
//	release -bin DIR -o DIR -version VERSION -date UNIX-TIME
//
// It writes an archive, a package for Debian and Ubuntu, an image of a whole machine
// with mullion, a software bill of materials in SPDX's format, and the checksums of
// all four. The same programs, version and date give the same files, byte for byte.
// The image has packages that are installed on this machine, and is the same if they
// are.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	var r release
	out := flag.String("o", "", "the `directory` to write to")
	flag.StringVar(&r.bin, "bin", "", "the `directory` of the programs")
	flag.StringVar(&r.root, "root", ".", "the `directory` of the sources")
	flag.StringVar(&r.version, "version", "", "the version, such as v0.1.0")
	flag.IntVar(&r.level, "level", 6, "how much to compress, from 0 to 9")
	flag.StringVar(&r.only, "only", "", "the only `kind` to write: archive, deb or image")
	date := flag.Int64("date", 0, "the time of all files, in `seconds` since 1970")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"usage: release -bin DIR -o DIR -version VERSION -date SECONDS [-only KIND]")
		flag.PrintDefaults()
	}
	flag.Parse()
	known := slices.Contains([]string{"", "archive", "deb", "image"}, r.only)
	if *out == "" || r.bin == "" || r.version == "" || *date == 0 || !known || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	r.packages = slices.Concat(needs, system)
	r.date = time.Unix(*date, 0).UTC()
	names, err := r.write(*out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release: error:", err)
		os.Exit(1)
	}
	for _, name := range names {
		fmt.Println(name)
	}
}
