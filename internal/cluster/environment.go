// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import "strings"

// keptVariables lists the variables of the caller that a cluster's programs keep:
// where programs, temporary files and the time zone are, how
// to reach registries, and how Go runs.
var keptVariables = map[string]bool{
	"PATH":        true,
	"TMPDIR":      true,
	"TZ":          true,
	"HTTP_PROXY":  true,
	"HTTPS_PROXY": true,
	"NO_PROXY":    true,

	"SSL_CERT_FILE": true,
	"SSL_CERT_DIR":  true,

	"GODEBUG":     true,
	"GOGC":        true,
	"GOMAXPROCS":  true,
	"GOMEMLIMIT":  true,
	"GOTRACEBACK": true,
	"GOCOVERDIR":  true,
}

// serverEnvironment returns the variables that a cluster's processes keep. They run for
// days, and don't need the other variables, such as credentials of the shell that started
// them, which processes that read their memory would see.
func serverEnvironment(environ []string) []string {
	var kept []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		// Proxies are written in both cases.
		if keptVariables[strings.ToUpper(name)] || strings.HasPrefix(name, "MULLION_") {
			kept = append(kept, e)
		}
	}
	return kept
}
