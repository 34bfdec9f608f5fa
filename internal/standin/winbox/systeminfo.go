// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"strings"
)

// systeminfo prints the lines that scripts look for; the hardware behind a
// container is not told.
func systeminfo(_ context.Context, env *Env) int {
	host, err := env.System.Hostname()
	if err != nil {
		env.errorf("ERROR: %v\n", err)
		return 1
	}
	info, err := env.System.OS()
	if err != nil {
		env.errorf("ERROR: %v\n", err)
		return 1
	}
	build := info.Version[strings.LastIndexByte(info.Version, '.')+1:]
	env.printf("\nHost Name:                 %s\nOS Name:                   %s\n"+
		"OS Version:                %s N/A Build %s\n"+
		"OS Manufacturer:           Microsoft Corporation\nOS Configuration:          Standalone Server\n"+
		"OS Build Type:             Multiprocessor Free\n"+
		"System Type:               x64-based PC\nProcessor(s):              %d Processor(s) Installed.\n"+
		"Windows Directory:         C:\\Windows\nSystem Directory:          C:\\Windows\\system32\n"+
		"Total Physical Memory:     %s MB\n",
		strings.ToUpper(host), info.Product, info.Version, build, info.CPUs,
		strings.TrimSuffix(kilobytes(info.Memory>>10), " K"))
	return 0
}
