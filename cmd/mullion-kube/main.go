// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command mullion-kube contains the parts of mullion that link Kubernetes: the
// control plane (server) and kubectl.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const usage = `mullion-kube runs Kubernetes' own programs; use it through mullion.

Usage:
  mullion-kube server --config FILE [--dry-run] [--log-level LEVEL]
  mullion-kube snapshot save|restore --config FILE --file SNAPSHOT
  mullion-kube kubectl ...

The server stops in order on SIGTERM and SIGINT, and looks for certificates to
renew on SIGHUP (as it does every hour).
`

func main() {
	// Started through a link named kubectl, the program is kubectl.
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "kubectl" {
		kubectl(os.Args[1:])
		return
	}
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch cmd, args := os.Args[1], os.Args[2:]; cmd {
	case "kubectl":
		kubectl(args)
	case "server":
		os.Exit(serve(context.Background(), args, os.Stdout, os.Stderr))
	case "snapshot":
		os.Exit(snapshot(context.Background(), args, os.Stdout, os.Stderr))
	case "examine":
		os.Exit(examine(args, os.Stderr))
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "mullion: error: unknown command %q\n%s", cmd, usage)
		os.Exit(2)
	}
}
