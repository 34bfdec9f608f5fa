// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestOutput: each line of the agent goes to the parent as it is, in whatever parts it comes; lines that are no
// document are left out, and so is one without an end, which takes no memory.
func TestOutput(t *testing.T) {
	var sent bytes.Buffer
	r := &Reporter{to: &sent}
	o := r.Output()
	for _, part := range []string{
		`{"pid":`, "1}\n", "ready\n\n", `{"pid":2}` + "\n" + `{"pid":3}` + "\n{", strings.Repeat(" ", 5*outputLimit),
		strings.Repeat("x", outputLimit) + "\n", `{"pid":4}` + "\r\n", `{"pid":5`,
	} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	var got []string
	for d := json.NewDecoder(&sent); d.More(); {
		var last report
		if err := d.Decode(&last); err != nil {
			t.Fatal(err)
		}
		got = append(got, string(last.Agent))
	}
	if want := `[{"pid":1} {"pid":2} {"pid":3} {"pid":4}]`; fmt.Sprint(got) != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	if held := cap(o.(*lines).line); held > 2*outputLimit {
		t.Errorf("%d bytes are held", held)
	}
}
