// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// errorCmdlets is Write-Error.
func errorCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Write-Error", Params: "Message|Msg@0< Exception:any ErrorRecord:any Category " +
		"ErrorId TargetObject:any RecommendedAction= CategoryActivity~ CategoryReason~ CategoryTargetName~ " +
		"CategoryTargetType~", Process: func(c *interp.Invocation) error {
		if rec, ok := c.Any("ErrorRecord").(*interp.ErrorRecord); ok {
			return c.WriteRecord(rec)
		}
		ex, ok := c.Any("Exception").(*interp.Exception)
		if !ok {
			ex = interp.Failf("Microsoft.PowerShell.Commands.WriteErrorException",
				"Microsoft.PowerShell.Commands.WriteErrorException", "NotSpecified", c.Any("TargetObject"), "%s",
				c.Str("Message", ""))
		}
		rec := c.Record(ex)
		if m := c.Str("Message", ""); m != "" && ok {
			rec.Details = m
		}
		rec.FQID = c.Str("ErrorId", value.ShortName(ex.Type))
		if c.Str("ErrorId", "") == "" {
			rec.FQID = ex.Type
		}
		rec.Category = c.Str("Category", "NotSpecified")
		rec.Target = c.Any("TargetObject")
		c.R.AsCaller(rec)
		if rec.Caller {
			rec.FQID += "," + interp.LeafPath(rec.Prefix)
		}
		return c.WriteRecord(rec)
	}}}
}
