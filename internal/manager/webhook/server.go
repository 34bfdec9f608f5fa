// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

const (
	// maxBody: how large an AdmissionReview may be, in bytes. The API server takes
	// objects of up to 3 MiB (k8s.io/apiserver pkg/server/config.go,
	// MaxRequestBodyBytes; etcd keeps 1.5 MiB of it). An update carries the old
	// object too: 6 MiB, 6.3 MB. The rest, less than 1.7 MB, is for user, options
	// and escapes; controller-runtime allows 7 MiB by the same sum.
	maxBody = 8_000_000
	// maxInFlight: how many bytes of reviews may be in work at once. A tree takes
	// about ten times its text, so 32 MB bound the memory at some 300 MB, and
	// still let hundreds of ordinary reviews (some kB) in.
	maxInFlight = 4 * maxBody
	// defaultTimeout applies to callers that do not specify one; API servers
	// name the webhook's timeout in the query (k8s.io/apiserver
	// pkg/admission/plugin/webhook: parameter "timeout").
	defaultTimeout = 2 * time.Second
	// maxTimeout is the API's own limit for timeoutSeconds.
	maxTimeout = 30 * time.Second
)

// Handler answers reviews. An error means that it cannot: the API server then
// applies the webhook's failurePolicy. The context expires shortly before the
// API server gives up waiting.
type Handler func(ctx context.Context, r *Request) (Response, error)

// Observer is called for every answer with the path, the HTTP status code, the
// duration, and the refusal, if any. It may be called concurrently, and delays
// the caller of the webhook.
type Observer interface {
	Answered(path string, code int, took time.Duration, refusal *metav1.Status)
}

// Server is the HTTP layer of the webhooks; it does not interpret the contents
// of reviews.
type Server struct {
	handlers map[string]Handler
	inFlight *semaphore.Weighted
	observer Observer // nil: not observed
	log      *slog.Logger
}

// NewServer serves each handler at its path.
func NewServer(handlers map[string]Handler, log *slog.Logger) *Server {
	return &Server{handlers: handlers, inFlight: semaphore.NewWeighted(maxInFlight), log: log}
}

// Observe sets the observer of answers. Precondition: the server has not received a request yet.
func (s *Server) Observe(o Observer) { s.observer = o }

// httpError is a failure with its status code.
type httpError struct {
	code int
	err  error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func failf(code int, format string, args ...any) error {
	return &httpError{code, fmt.Errorf(format, args...)}
}

// ServeHTTP answers one AdmissionReview.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), budget(r))
	defer cancel()
	req, resp, err := s.serve(ctx, w, r)
	var body []byte
	if err == nil {
		body, err = resp.encode(req)
	}
	code := http.StatusOK
	if err != nil {
		code = statusCode(ctx, err)
		http.Error(w, clip(err.Error(), maxProblem), code)
	} else {
		w.Header().Set("Content-Type", "application/json")
		_, err = w.Write(body)
	}
	took := time.Since(start)
	s.access(ctx, r.URL.Path, req, resp, code, took, err)
	if s.observer == nil {
		return
	}
	var refusal *metav1.Status
	if code == http.StatusOK && !resp.Allowed {
		refusal = &resp.Refusal
	}
	s.observer.Answered(r.URL.Path, code, took, refusal)
}

// serve does everything between the first byte read and the first written.
func (s *Server) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) (*Request, Response, error) {
	handler, ok := s.handlers[r.URL.Path]
	if !ok {
		return nil, Response{}, failf(http.StatusNotFound, "no webhook has this path")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, Response{}, failf(http.StatusMethodNotAllowed, "method %s: want POST", clip(r.Method, 16))
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, Response{}, failf(http.StatusUnsupportedMediaType, "Content-Type: want application/json")
	}
	body, release, err := s.read(ctx, w, r)
	if err != nil {
		return nil, Response{}, err
	}
	defer release()
	req, err := decode(body)
	if err != nil {
		return nil, Response{}, &httpError{http.StatusBadRequest, err}
	}
	resp, err := guard(ctx, handler, req)
	return req, resp, err
}

// read takes the body in, once there is room for it. release gives the room
// back.
func (s *Server) read(ctx context.Context, w http.ResponseWriter,
	r *http.Request) (body []byte, release func(), err error) {
	size := r.ContentLength
	switch {
	case size > maxBody:
		return nil, nil, failf(http.StatusRequestEntityTooLarge, "the body has %d bytes; at most %d are read",
			size, maxBody)
	case size < 0:
		size = maxBody // not said
	}
	if err := s.inFlight.Acquire(ctx, size); err != nil {
		return nil, nil, failf(http.StatusServiceUnavailable, "too many reviews at once: %w", err)
	}
	release = func() { s.inFlight.Release(size) }
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		release()
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return nil, nil, failf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
		}
		return nil, nil, failf(http.StatusBadRequest, "read the body: %w", err)
	}
	if b.Len() == 0 {
		release()
		return nil, nil, failf(http.StatusBadRequest, "the body is empty: want an AdmissionReview")
	}
	return b.Bytes(), release, nil
}

// panicked is a defect in a handler; it is not shown to the user.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return "a defect of the webhook; see the manager's log"
}

// guard turns a panic of a handler into an error of this one call.
func guard(ctx context.Context, h Handler, r *Request) (resp Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p, debug.Stack()}
		}
	}()
	return h(ctx, r)
}

// budget is how long an answer may take: the caller's timeout, less a tenth for
// the way back.
func budget(r *http.Request) time.Duration {
	d, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || d <= 0 {
		d = defaultTimeout
	}
	return min(d, maxTimeout) * 9 / 10
}

func statusCode(ctx context.Context, err error) int {
	var h *httpError
	switch {
	case errors.As(err, &h):
		return h.code
	case ctx.Err() != nil:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// access writes one line per call. Objects are not logged: they hold secrets.
func (s *Server) access(ctx context.Context, path string, req *Request, resp Response, code int, took time.Duration,
	err error) {
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String(logkey.Path, clip(path, 64)), slog.Int(logkey.Code, code), slog.Duration(logkey.Duration, took),
	}
	if req != nil {
		attrs = append(attrs, slog.String(logkey.Namespace, clip(req.Namespace, 64)),
			slog.String(logkey.Name, clip(req.Name, 253)))
		if err == nil && !resp.Allowed {
			level = slog.LevelInfo
			attrs = append(attrs, slog.String(logkey.Reason, string(resp.Refusal.Reason)))
		}
	}
	if err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String(logkey.Error, clip(err.Error(), maxProblem)))
		if p := (*panicked)(nil); errors.As(err, &p) {
			level = slog.LevelError
			attrs = append(attrs, slog.String(logkey.Reason, fmt.Sprintf("panic: %v\n%s", p.value, p.stack)))
		}
	}
	s.log.LogAttrs(ctx, level, "admission review", attrs...)
}
