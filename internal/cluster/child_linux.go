// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"sync/atomic"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// child runs a program with its output in the log of its name. The error includes the
// reason that the program gave, if any. The process ID is stored while the program runs: the
// readiness check must ignore the status of an earlier process, which may have been killed.
func (r *run) child(ctx context.Context, p Program, pid *atomic.Int64) (err error) {
	log, err := os.OpenFile(r.layout.log(p.Name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	defer pid.Store(0)
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	err = r.spawner.Child(supervise.Command{
		Argv: p.Argv, Env: serverEnvironment(os.Environ()), Dir: "/",
		Stop: stopProgram, Log: log, OnStart: func(id int) { pid.Store(int64(id)) },
	})(ctx)
	if ctx.Err() != nil {
		return err
	}
	why := lastError(log, begin, endLine)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == config.ExitUnusable {
		return supervise.Permanent(errors.New(why))
	}
	if why != "" {
		return fmt.Errorf("%w: %s", err, why)
	}
	return err
}

// logTail is the size of a log's end that lastError reads, in bytes: our programs log the
// reason for their end in one of their last lines.
const logTail = 64 << 10

// endLine matches the line in which one of our programs logs the reason for its end.
var endLine = regexp.MustCompile(`^mullion: error: (.*)`)

// lastError returns the last line of a program's log since begin that matches, from
// its first group on. "exit status 3" alone sends people to the log.
func lastError(log io.ReadSeeker, begin int64, pattern *regexp.Regexp) string {
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	if _, err := log.Seek(max(begin, end-logTail), io.SeekStart); err != nil {
		return ""
	}
	tail, err := io.ReadAll(io.LimitReader(log, logTail))
	if err != nil {
		return ""
	}
	var why []byte
	for line := range bytes.Lines(tail) {
		if found := pattern.FindSubmatch(bytes.TrimSpace(line)); found != nil {
			why = found[1]
		}
	}
	return string(why)
}
