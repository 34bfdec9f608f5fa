// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// timeoutMax is the longest wait that Windows' timeout takes, in seconds.
const timeoutMax = 99999

// timeout waits. Like Windows' own it refuses to where standard input is not a
// console, which in a container it seldom is; that is why manifests use ping -n.
func timeout(ctx context.Context, env *Env) int {
	seconds, ok := timeoutSeconds(env.Args)
	if !ok {
		env.errorf("ERROR: Invalid syntax. Type \"TIMEOUT /?\" for usage.\n")
		return 1
	}
	if !env.Console {
		env.errorf("ERROR: Input redirection is not supported, exiting the process immediately.\n")
		return 1
	}
	env.printf("\nWaiting for %d seconds, press CTRL+C to quit ...\n", seconds)
	if seconds < 0 {
		<-ctx.Done()
		return 1
	}
	if !sleepFor(ctx, time.Duration(seconds)*time.Second) {
		return 1
	}
	return 0
}

func timeoutSeconds(args []string) (int, bool) {
	seconds, set := 0, false
	for _, a := range args {
		switch l := strings.ToLower(a); l {
		case "/t", "-t", "/nobreak", "-nobreak":
		default:
			n, err := strconv.Atoi(a)
			if err != nil || set || n < -1 || n > timeoutMax {
				return 0, false
			}
			seconds, set = n, true
		}
	}
	return seconds, set
}
