// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRooms prints the lines of product Go of each directory of internal/, and of pwsh, beside the lines in the last
// release (rooms.txt). Growth does not fail it: a reviewer asks for the reason. A room without a row does.
func TestRooms(t *testing.T) {
	now := map[string]int{}
	sources(t, func(name string) {
		room, _, below := strings.Cut(strings.TrimPrefix(name, "internal/"), "/")
		if !below || !strings.HasPrefix(name, "internal/") && room != "pwsh" || strings.HasSuffix(name, "_test.go") {
			return
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		now[room] += bytes.Count(text, []byte("\n"))
	})
	table, err := os.ReadFile("rooms.txt")
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]int{}
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var room string
		var lines int
		if _, err := fmt.Sscan(line, &room, &lines); err != nil {
			t.Errorf("rooms.txt: %q: %v", line, err)
		}
		before[room] = lines
	}
	then, total := 0, 0
	for _, room := range slices.Sorted(maps.Keys(now)) {
		was, ok := before[room]
		if !ok {
			t.Errorf("rooms.txt has no row for %s, of %d lines", room, now[room])
		}
		t.Logf("%-13s %6d lines, %6d in the last release: %+d", room, now[room], was, now[room]-was)
		then, total = then+was, total+now[room]
		delete(before, room)
	}
	t.Logf("%-13s %6d lines, %6d in the last release: %+d", "all", total, then, total-then)
	for room := range before {
		t.Errorf("rooms.txt has a row for %s, which does not exist", room)
	}
}
