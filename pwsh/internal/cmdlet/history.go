// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
)

// historyCmdlets returns the cmdlets for the history, which is not kept.
func historyCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Get-History", Aliases: []string{"h", "history", "ghy"},
		Params: "Id:any@0 Count:int", Fidelity: "no history is kept", Process: func(*interp.Invocation) error {
			return nil
		}}}
}
