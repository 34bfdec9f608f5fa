// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"errors"
	"fmt"
)

// errorCode is an error code of Windows (winerror.h).
type errorCode uint32

// The codes that this package answers with.
const (
	accessDenied        errorCode = 5
	genFailure          errorCode = 31
	notSupported        errorCode = 50
	invalidParameter    errorCode = 87
	notFound            errorCode = 1168
	objectAlreadyExists errorCode = 5010
)

// refusal is an error with the code that the caller gets.
type refusal struct {
	code errorCode
	why  string
}

func (e *refusal) Error() string { return fmt.Sprintf("%s (Windows error %d)", e.why, e.code) }

func refuse(code errorCode, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// codeOf returns the code that a caller gets for an error.
func codeOf(err error) errorCode {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.code
	}
	return genFailure
}
