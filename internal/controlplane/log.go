// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// bridgeLogs redirects the global loggers of upstream's code to ours, and makes
// klog.Fatal and the like stop the control plane in order.
// Preconditions: called once, before any component starts.
func bridgeLogs(log *slog.Logger, exit func(code int)) {
	bridgeKlog(log)
	klog.OsExit = exit
	// Upstream's programs do the same: their controllers use deprecated kinds on
	// purpose.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	// CoreDNS writes to the standard logger, its level in the text.
	stdlog.SetFlags(0)
	stdlog.SetOutput(corednsLog{slog.New(without{log.With(logkey.Component, "coredns").Handler(), noise()})})
}

// bridgeKlog leads klog into ours. CoreDNS' kubernetes plugin replaces klog's logger when
// it starts, so bridgeKlog is called again after that.
func bridgeKlog(log *slog.Logger) {
	h := log.With(logkey.Component, "kubernetes").Handler() // klog doesn't name the component
	klog.SetSlogLogger(slog.New(without{h, noise()}))
}

// noise lists warnings and errors that upstream logs on every start or stop although
// there is no problem.
func noise() []string {
	// there is no file of metric labels (component-base/metrics, Options.Apply)
	const manifest = "The manifest file is empty, ignoring."
	return []string{
		manifest,
		// the same through CoreDNS
		"plugin/kubernetes: " + manifest + ": %!s(<nil>)",
		// watches do not end by themselves
		"Failed to shutdown server: context deadline exceeded",
		// few clients share the socket
		"Running http and grpc server on single port. This is not recommended for production.",
		"simple token is not cryptographically signed", // etcd's own users are not used
	}
}

// without drops messages that are of no use.
type without struct {
	slog.Handler
	messages []string
}

// Handle implements slog.Handler.
func (w without) Handle(ctx context.Context, r slog.Record) error {
	if slices.Contains(w.messages, r.Message) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (w without) WithAttrs(a []slog.Attr) slog.Handler {
	return without{w.Handler.WithAttrs(a), w.messages}
}

// WithGroup implements slog.Handler.
func (w without) WithGroup(name string) slog.Handler {
	return without{w.Handler.WithGroup(name), w.messages}
}

// corednsLog turns CoreDNS' lines ("[INFO] plugin/kubernetes: …") into records.
type corednsLog struct{ log *slog.Logger }

func (w corednsLog) Write(p []byte) (int, error) {
	level, text := slog.LevelInfo, strings.TrimSpace(string(p))
	for prefix, l := range map[string]slog.Level{"[DEBUG] ": slog.LevelDebug, "[INFO] ": slog.LevelInfo,
		"[WARNING] ": slog.LevelWarn, "[ERROR] ": slog.LevelError, "[FATAL] ": slog.LevelError} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			level, text = l, rest
		}
	}
	w.log.Log(context.Background(), level, text) //nolint:sloglint // the text is that of a line of another's log
	return len(p), nil
}

var _ io.Writer = corednsLog{}

// etcdLog passes on the warnings of etcd's tools.
func etcdLog(log *slog.Logger) *zap.Logger { return zap.New(zapCore{without{log.Handler(), noise()}}) }

// zapCore passes etcd's log on. Its information level includes every step of raft, so
// only warnings and errors are kept.
type zapCore struct{ h slog.Handler }

// Enabled implements zapcore.LevelEnabler.
func (zapCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{c.h.WithAttrs(attrs(fields))}
}

// Check implements zapcore.Core.
func (c zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	// etcd logs four times, as warnings and errors, that it stopped listening after a
	// request to stop.
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType &&
			(errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed)) {
			return nil
		}
	}
	level := slog.LevelWarn
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	r := slog.NewRecord(e.Time, level, e.Message, 0)
	r.AddAttrs(attrs(fields)...)
	return c.h.Handle(context.Background(), r)
}

// Sync implements zapcore.Core.
func (zapCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}

// fatalHook is called instead of os.Exit when etcd gives up. It does not return,
// because its callers do not expect it to.
type fatalHook struct{ fatal func(reason error) }

// OnWrite implements zapcore.CheckWriteHook.
func (h fatalHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	var cause error
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			cause = err
		}
	}
	if cause != nil {
		h.fatal(fmt.Errorf("%s: %w", e.Message, cause))
	} else {
		h.fatal(errors.New(e.Message))
	}
}
