// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// unary logs each call once, with its duration, translates its error and keeps
// a bug in one call from ending the others.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	next grpc.UnaryHandler) (resp any, err error) {
	begin := time.Now()
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ctx, "panic in a call", logkey.Method, path.Base(info.FullMethod), logkey.Error,
				fmt.Sprintf("%v\n%s", p, debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
		cause := err
		err = s.toStatus(err)
		s.logCall(ctx, path.Base(info.FullMethod), req, begin, status.Code(err), cause)
	}()
	return next(ctx, req)
}

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	next grpc.StreamHandler) (err error) {
	begin := time.Now()
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ss.Context(), "panic in a call", logkey.Method, path.Base(info.FullMethod), logkey.Error,
				fmt.Sprintf("%v\n%s", p, debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
		cause := err
		err = s.toStatus(err)
		s.logCall(ss.Context(), path.Base(info.FullMethod), nil, begin, status.Code(err), cause)
	}()
	return next(srv, ss)
}

func (s *Server) logCall(ctx context.Context, method string, req any, begin time.Time, code codes.Code, err error) {
	attrs := []slog.Attr{slog.String(logkey.Method, method), slog.Duration(logkey.Duration, time.Since(begin))}
	if r, ok := req.(interface{ GetPodSandboxId() string }); ok && r.GetPodSandboxId() != "" {
		attrs = append(attrs, slog.String(logkey.SandboxID, r.GetPodSandboxId()))
	}
	if r, ok := req.(interface{ GetContainerId() string }); ok && r.GetContainerId() != "" {
		attrs = append(attrs, slog.String(logkey.ContainerID, r.GetContainerId()))
	}
	if err != nil {
		attrs = append(attrs, slog.String(logkey.Code, code.String()), slog.Any(logkey.Error, err))
	}
	s.log.LogAttrs(ctx, slog.LevelDebug, "call", attrs...)
}
