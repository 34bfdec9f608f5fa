// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runc

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// Watch calls ended for every container that has ended, including earlier ones,
// until the context ends. A container may be reported twice. ready, if not nil, is
// closed when the earlier ones have been reported.
func (r *Runtime) Watch(ctx context.Context, ready chan<- struct{}, ended func(id string)) (err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch exit codes: %w", err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	// First the watch, then the look: no exit is missed.
	if err := w.Add(r.cfg.ExitDir); err != nil {
		return fmt.Errorf("watch exit codes: %w", err)
	}
	look := func() error {
		ids, err := r.Exits()
		for _, id := range ids {
			ended(id)
		}
		return err
	}
	if err := look(); err != nil {
		return err
	}
	if ready != nil {
		close(ready)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev, ok := <-w.Events:
			if !ok {
				return errors.New("watch exit codes: the watch ended")
			}
			if id := filepath.Base(ev.Name); ev.Has(fsnotify.Create) && !strings.Contains(id, ".") {
				ended(id)
			}
		case err, ok := <-w.Errors:
			if !ok {
				return errors.New("watch exit codes: the watch ended")
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch exit codes: %w", err)
			}
			if err := look(); err != nil {
				return err
			}
		}
	}
}
