// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// sleepCmdlets is Start-Sleep.
func sleepCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Start-Sleep", Aliases: []string{"sleep"},
		Params: "Seconds|s:float@0< Milliseconds|m:float Duration:any", Process: func(c *interp.Invocation) error {
			var d time.Duration
			if v, ok := c.Get("Milliseconds"); ok {
				d = time.Duration(v.(float64) * float64(time.Millisecond))
			} else if v, ok := c.Get("Seconds"); ok {
				d = time.Duration(v.(float64) * float64(time.Second))
			} else if v, ok := c.Get("Duration"); ok {
				s, err := value.ToSpan(v)
				if err != nil {
					return err
				}
				d = time.Duration(s)
			} else {
				return badArgument("Seconds", "Cannot process command because of one or more missing mandatory "+
					"parameters: Seconds.")
			}
			if d < 0 {
				return badArgument("Seconds", "Cannot validate argument on parameter 'Seconds'. The argument is less "+
					"than the minimum allowed range of 0.")
			}
			return dotnet.Sleep(c.R, d)
		}}}
}
