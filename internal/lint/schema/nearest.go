// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import "strings"

// nearest returns the name that was probably meant, or "" if no name is near.
func nearest(written string, names []string) string {
	best, least := "", 1+len(written)/4
	for _, name := range names {
		if strings.EqualFold(name, written) {
			return name
		}
		// A word too much or too little, such as port for ports or image for imageName.
		d := distance(strings.ToLower(written), strings.ToLower(name), least)
		if d < least || d == least && best == "" {
			best, least = name, d
		}
	}
	return best
}

// distance is the number of letters to insert, remove, replace or swap with the
// next one; more than most if it is larger.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
