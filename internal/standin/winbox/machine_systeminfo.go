// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"strings"
)

// systeminfo prints the lines that scripts look for; it omits the hardware behind
// a container.
func systeminfo(_ context.Context, env *Env) int {
	const versionKey = `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	build := env.registryText(versionKey, "CurrentBuildNumber")
	memory, _ := env.Host.System.Memory()
	env.printf("\nHost Name:                 %s\nOS Name:                   Microsoft %s\n"+
		"OS Version:                10.0.%s N/A Build %s\n"+
		"OS Manufacturer:           Microsoft Corporation\nOS Configuration:          Standalone Server\n"+
		"OS Build Type:             Multiprocessor Free\n"+
		"System Type:               x64-based PC\nProcessor(s):              %d Processor(s) Installed.\n"+
		"Windows Directory:         C:\\Windows\nSystem Directory:          C:\\Windows\\system32\n"+
		"Total Physical Memory:     %s MB\n",
		strings.ToUpper(env.Host.System.Hostname()), env.registryText(versionKey, "ProductName"), build, build,
		env.Host.System.ProcessorCount(), strings.TrimSuffix(kilobytes(memory>>10), " K"))
	return 0
}
