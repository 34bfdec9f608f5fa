// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package inband reports the terminal's size and its end to a console within the
// terminal's input. Linux uses signals for this, which do not reach Windows
// programs. The form is the same as in terminals' own reports in mode 2048: CSI 48
// ; rows ; columns ; height ; width t, the last two in pixels; without numbers the
// terminal is gone.
//
// Source: gist.github.com/rockorager/e695fb2924d36b2bcf1fff4a3704bd83, "In-Band
// Resize Notifications".
package inband

import (
	"bytes"
	"fmt"
)

// prefix begins every report.
const prefix = "\x1b[48;"

// maxLength bounds a report.
const maxLength = 40

// Report returns the report of a size in characters. The pixels are not known.
func Report(width, height uint16) []byte {
	return fmt.Appendf(nil, "%s%d;%d;0;0t", prefix, height, width)
}

// Gone reports that the terminal is gone.
const Gone = "\x1b[48t"

// Event is the content of a report.
type Event struct {
	Width, Height uint16
	Gone          bool
}

// Cut looks for a report at the beginning of data. n is its length, or 0; more is
// set if data may be the beginning of one.
func Cut(data []byte) (e Event, n int, more bool) {
	if len(data) < len(Gone) {
		return e, 0, bytes.HasPrefix([]byte(Gone), data) || bytes.HasPrefix([]byte(prefix), data)
	}
	if bytes.HasPrefix(data, []byte(Gone)) {
		return Event{Gone: true}, len(Gone), false
	}
	if !bytes.HasPrefix(data, []byte(prefix)) {
		return e, 0, false
	}
	end := bytes.IndexByte(data[:min(len(data), maxLength)], 't')
	if end < 0 {
		return e, 0, len(data) < maxLength
	}
	if _, err := fmt.Sscanf(string(data[len(prefix):end]), "%d;%d", &e.Height, &e.Width); err != nil {
		return Event{}, 0, false
	}
	return e, end + 1, false
}
