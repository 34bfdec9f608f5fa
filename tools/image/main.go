// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command image builds the image of mullion's manager: an archive with one layer that
// holds one static program and the CA certificates of registries; with -bare, the image
// of any program, without certificates. The same programs give the same archive, byte for
// byte: timestamps are fixed, and the machine's files are not used.
//
//	image [-bare NAME] -o FILE -t REFERENCE OS/ARCH=PROGRAM...
//
// The archive is an OCI image layout (for containerd, podman, skopeo, crane) and
// also has the manifest.json that docker load needs.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	out := flag.String("o", "", "the archive")
	tag := flag.String("t", "", "reference, such as mullion/mullion:v0.1.0")
	bare := flag.String("bare", "", "make an image with the program alone, under this `name`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: image [-bare NAME] -o FILE -t REFERENCE OS/ARCH=PROGRAM...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *out == "" || *tag == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	digest, err := build(*out, *tag, *bare, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "image: error:", err)
		os.Exit(1)
	}
	fmt.Printf("%s\n%s\n", *tag, digest)
}

// build writes the archive and returns the digest that the reference names.
func build(out, tag, bare string, programs []string) (digest string, err error) {
	var parts []part
	for _, p := range programs {
		platform, file, ok := strings.Cut(p, "=")
		os, arch, isPlatform := strings.Cut(platform, "/")
		if !ok || !isPlatform || file == "" {
			return "", fmt.Errorf("%q: want OS/ARCH=PROGRAM", p)
		}
		made, err := newPart(os, arch, file, bare)
		if err != nil {
			return "", err
		}
		parts = append(parts, made)
	}
	return write(out, tag, parts)
}
