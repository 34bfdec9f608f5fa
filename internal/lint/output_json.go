// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"encoding/json"
)

// jsonPrinter writes one object per line: it can be read while it is written,
// and 50,000 documents need no memory.
type jsonPrinter struct{ w *bufio.Writer }

func (p *jsonPrinter) Print(r Result) error { return json.NewEncoder(p.w).Encode(r) }

// Close writes a line for each file with documents that were skipped, for each
// kind of objects that were not looked at, and for each note. These have no code:
// they are not findings.
func (p *jsonPrinter) Close(sum Summary) error {
	type unseen struct {
		Kind    string `json:"kind"`
		Group   string `json:"group"`
		Objects int    `json:"objects"`
	}
	var lines []any
	for _, s := range sum.Skipped {
		lines = append(lines, map[string]Skip{"skipped": s})
	}
	for _, k := range sum.Unseen.kinds() {
		lines = append(lines, map[string]unseen{"notLookedAt": {k.Name, k.Group, sum.Unseen[k]}})
	}
	for _, n := range sum.Notes {
		lines = append(lines, map[string]Note{"note": n})
	}
	for _, line := range lines {
		if err := json.NewEncoder(p.w).Encode(line); err != nil {
			return err
		}
	}
	return p.w.Flush()
}
