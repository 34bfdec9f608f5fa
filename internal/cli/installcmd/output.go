// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package installcmd

import (
	"context"
	"errors"
	"io"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/install"
)

// output prints a line for each finished object, and one changing line that shows the
// objects the command is waiting for.
type output struct {
	progress *cli.Progress
	wait     *cli.Line // nil without a wait
	steps    int
}

func newOutput(w io.Writer) *output { return &output{progress: cli.NewProgress(w)} }

func (o *output) say(s install.Step) {
	o.steps++
	o.done(s.String())
}

func (o *output) waiting(what string) {
	if o.wait == nil {
		o.wait = o.progress.Start("waiting for %s", what)
		return
	}
	o.wait.Set("waiting for %s", what)
}

// done makes the line that waits final, or prints another one.
func (o *output) done(text string) {
	if o.wait != nil {
		o.wait.Done("%s", text)
		o.wait = nil
		return
	}
	o.progress.Start("%s", text).Done("%s", text)
}

// fail ends the waiting line, and prints a hint after an interruption.
func (o *output) fail(err error) error {
	if o.wait != nil {
		o.wait.Fail("%s", "not done")
		o.wait = nil
	}
	if errors.Is(err, context.Canceled) {
		o.progress.Start("").Fail("interrupted: run it again to continue")
	}
	return err
}

func (o *output) close() { o.progress.Close() }
