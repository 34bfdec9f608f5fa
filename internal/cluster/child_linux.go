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
	"sync"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// child runs a program with its output in the log of its name. The error says
// what the program gave as its reason, if it did.
func (r *run) child(ctx context.Context, p Program, pid *process) (err error) {
	log, err := os.OpenFile(r.layout.log(p.Name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	err = r.spawner.Child(supervise.Command{
		Argv: p.Argv, Env: serverEnvironment(os.Environ()), Dir: "/",
		Stop: stopProgram, Log: log, OnStart: pid.set,
	})(ctx)
	if ctx.Err() != nil {
		return err
	}
	why := lastError(log, begin)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == config.ExitUnusable {
		return supervise.Permanent(errors.New(why))
	}
	if why != "" {
		return fmt.Errorf("%w: %s", err, why)
	}
	return err
}

// logTail is how much of a log's end lastError reads, in bytes: our programs say
// why they end in one of their last lines.
const logTail = 64 << 10

// lastError returns what the last line of a program's log since begin that
// reports an error says. "exit status 3" alone sends people to the log.
func lastError(log io.ReadSeeker, begin int64) string {
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
		if text, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("mullion: error: ")); ok {
			why = text
		}
	}
	return string(why)
}

// process remembers the ID of a child for the readiness check, which must ignore
// the status of an earlier process.
type process struct {
	mu sync.Mutex
	id int // guarded by mu
}

func (p *process) set(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = id
}

func (p *process) get() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}
