// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"strings"
)

// The accounts of a Windows container and their security identifiers:
// learn.microsoft.com/virtualization/windowscontainers/manage-containers/container-security.
const (
	sidAdministrator = "S-1-5-93-2-1"
	sidUser          = "S-1-5-93-2-2"
)

// containerDomain is the authority of both accounts.
const containerDomain = "User Manager"

// whoami prints the account, in lower case as Windows does.
func whoami(_ context.Context, env *Env) int {
	name := strings.ToLower(containerDomain + `\` + env.System.User())
	if len(env.Args) == 0 {
		env.printf("%s\n", name)
		return 0
	}
	if o := strings.ToLower(env.Args[0]); o != "/user" && o != "-user" {
		env.errorf("ERROR: Invalid argument/option - '%s'.\nThis stand-in knows /USER only.\n", env.Args[0])
		return 1
	}
	sid := sidAdministrator
	if strings.EqualFold(env.System.User(), "ContainerUser") {
		sid = sidUser
	}
	env.printf("\nUSER INFORMATION\n----------------\n\nUser Name%s SID\n%s %s\n%s %s\n",
		strings.Repeat(" ", max(len(name)-len("User Name"), 0)), strings.Repeat("=", len(name)), strings.Repeat("=", len(sid)), name, sid)
	return 0
}
