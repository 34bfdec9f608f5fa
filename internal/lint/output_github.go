// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"cmp"
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// githubPrinter writes workflow commands, which GitHub turns into annotations.
// https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
type githubPrinter struct {
	w     *bufio.Writer
	paths *Paths
}

// The characters that end a command or a property, as the runner reads them.
// https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
var githubEscapes = struct{ message, property *strings.Replacer }{
	strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A"),
	strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C"),
}

func (p *githubPrinter) Print(r Result) error {
	if r.Suppressed != "" {
		return nil
	}
	command := map[policy.Severity]string{policy.Error: "error", policy.Warning: "warning"}[r.Severity]
	command = cmp.Or(command, "notice")
	var properties []string
	add := func(key string, value any) {
		properties = append(properties, key+"="+githubEscapes.property.Replace(fmt.Sprint(value)))
	}
	message := r.Message + "\nfix: " + r.Fix
	if r.File != "" {
		add("file", p.paths.Of(r.File))
		add("line", r.Line)
		add("endLine", r.Line)
		if r.EndColumn > 0 {
			add("col", r.Column)
			add("endColumn", r.EndColumn)
		}
	} else {
		message = r.Object + ": " + r.Field + ": " + message
	}
	add("title", r.Code)
	_, err := fmt.Fprintf(p.w, "::%s %s::%s\n", command, strings.Join(properties, ","),
		githubEscapes.message.Replace(message))
	return err
}

func (p *githubPrinter) Close(Summary) error { return p.w.Flush() }
