// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import "context"

// hostname prints the computer's name.
func hostname(_ context.Context, env *Env) int {
	if len(env.Args) > 0 && env.Args[0] == "/?" {
		env.printf("\nPrints the name of the current host.\n\nhostname\n")
		return 0
	}
	if len(env.Args) > 0 {
		// Text and code of Windows: the program only prints.
		env.errorf("sethostname: Use the Network Control Panel Applet to set hostname.\n" +
			"hostname -s is not supported.\n")
		return 1
	}
	env.printf("%s\n", env.Host.System.Hostname())
	return 0
}
