// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"runtime"
	"strings"

	"github.com/mullion-k8s/mullion/internal/standin/winbox/curl"
)

// curlTool is curl.exe. Its C library ends the lines of its messages with CR LF,
// and the lines of standard output as long as no body goes there.
func curlTool(ctx context.Context, env *Env) int {
	return curl.Run(ctx, curl.Env{
		Args:     env.Args,
		Stdin:    env.Stdin,
		Stdout:   env.Stdout,
		Stderr:   textWriter{env},
		TextMode: runtime.GOOS == "windows",
	})
}

// textWriter writes messages with Windows' line endings.
type textWriter struct{ env *Env }

func (w textWriter) Write(p []byte) (int, error) {
	w.env.errorf("%s", strings.ReplaceAll(string(p), "\r\n", "\n"))
	return len(p), nil
}
