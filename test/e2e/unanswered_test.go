// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// unanswered returns in which way a dial of the test, or a program in a pod, got no answer: "refused", "timed out" or
// "no such name". It returns "" for any other failure. That of kubectl or of the pod proves nothing about the
// network.
func unanswered(err error) string {
	if err == nil {
		return ""
	}
	if m := unansweredProgram.FindStringSubmatch(err.Error()); m != nil {
		return unansweredTexts[m[1]]
	}
	// kubectl's own errors are texts, so these are of a dial of the test.
	if request, ok := errors.AsType[*url.Error](err); ok && request.Timeout() {
		return "timed out"
	}
	dial, ok := errors.AsType[*net.OpError](err)
	switch {
	case ok && dial.Timeout():
		return "timed out"
	case ok && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)):
		return "refused" // by the server or by a router
	}
	return ""
}

// unansweredProgram matches the lines in which curl, ping, winprog and linuxprog say so.
var unansweredProgram = regexp.MustCompile(
	`(curl: \((?:6|7|28)\)|probe: (?:refused|timed out|no such name)|Request timed out\.|` +
		`Destination \w+ unreachable\.|General failure\.)`)

var unansweredTexts = map[string]string{
	"curl: (6)": "no such name", "curl: (7)": "refused", "curl: (28)": "timed out",
	"probe: no such name": "no such name", "probe: refused": "refused", "probe: timed out": "timed out",
	"Request timed out.": "timed out", "Destination host unreachable.": "refused",
	"Destination net unreachable.": "refused", "Destination port unreachable.": "refused",
	// The host itself did not send it (IP_GENERAL_FAILURE in ipexport.h).
	"General failure.": "refused",
}

// denied fails the test unless a connection was refused or timed out.
func denied(t *testing.T, what string, err error) {
	t.Helper()
	if how := unanswered(err); how != "refused" && how != "timed out" {
		t.Errorf("%s: want a connection that is refused or times out; error: %v", what, err)
	}
}

// withOutput adds to an error what its program printed, where unanswered finds it.
func withOutput(out string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, strings.TrimSpace(out))
}

// TestUnanswered: only the network's own silence counts.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	noCluster(t)
	_, refused := net.Dial("tcp4", "127.0.0.1:1") // no server: port 1 is reserved
	for text, want := range map[string]string{
		"exit status 28: curl: (28) Failed: command terminated with exit code 28":                       "timed out",
		"exit status 7: curl: (7) Failed to connect: command terminated with exit code 7":               "refused",
		"exit status 1: linuxprog: dial\nprobe: refused\ncommand terminated":                            "refused",
		"exit status 1: error dialing backend: dial tcp 10.89.31.11:10250: connect: connection refused": "",
		"exit status 1: context deadline exceeded":                                                      "",
		"exit status 1: Error from server (NotFound): pods \"client\" not found":                        "",
		"exit status 1: command terminated with exit code 1: Request timed out.":                        "timed out",
		"exit status 1: command terminated with exit code 1: General failure.":                          "refused",
		"exit status 1: error executing command in container: i/o timeout (110)":                        "",
	} {
		if got := unanswered(errors.New(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := unanswered(fmt.Errorf("dial: %w", refused)); got != "refused" {
		t.Errorf("%v: %q", refused, got)
	}
}
