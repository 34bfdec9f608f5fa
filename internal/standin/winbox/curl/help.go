// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"fmt"
	"io"
)

// help prints the short help, or with "all" every option.
func (p *parser) help(topic string, _ bool) error {
	if topic == "all" {
		for _, o := range p.options {
			short := "    "
			if o.short != 0 {
				short = "-" + string(o.short) + ", "
			}
			argument := [...]string{text: "text", file: "file", seconds: "seconds", number: "number"}[o.takes]
			if argument != "" {
				argument = " <" + argument + ">"
			}
			remark := ""
			if o.do == nil {
				remark = " (not in this curl)"
			}
			_, _ = fmt.Fprintf(p.out, " %s--%s%s%s\n", short, o.long, argument, remark)
		}
		return errHelp
	}
	_, _ = io.WriteString(p.out, `Usage: curl [options...] <url>
 -d, --data <data>           HTTP POST data
 -f, --fail                  Fail fast with no output on HTTP errors
 -h, --help <subject>        Get help for commands
 -o, --output <file>         Write to file instead of stdout
 -O, --remote-name           Write output to file named as remote file
 -i, --show-headers          Show response headers in output
 -s, --silent                Silent mode
 -T, --upload-file <file>    Transfer local FILE to destination
 -u, --user <user:password>  Server user and password
 -A, --user-agent <name>     Send User-Agent <name> to server
 -v, --verbose               Make the operation more talkative
 -V, --version               Show version number and quit

This is not the full help; this menu is split into categories.
Use "--help all" to list all options
`)
	return errHelp
}
