// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// errInvalid marks a request that no retry will make right.
var errInvalid = errors.New("invalid request")

// invalid is an errInvalid whose text is containerd's only.
type invalid struct{ error }

func (invalid) Is(target error) bool { return target == errInvalid }
func (e invalid) Unwrap() error      { return e.error }

// toStatus converts an error into a gRPC status. The kubelet looks at three codes:
// NotFound (already gone), DeadlineExceeded (of ExecSync: the probe timed out) and
// Unimplemented.
func (s *Server) toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown // containerd's code for everything else
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, image.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, errInvalid), errors.Is(err, image.ErrInvalid), errors.Is(err, mount.ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, store.ErrReserved):
		code = codes.AlreadyExists
	case errors.Is(err, image.ErrDenied):
		code = codes.PermissionDenied
	}
	return status.Error(code, s.podText(err))
}
