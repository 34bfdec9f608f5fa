// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package config

// ExitUnusable is the exit code of a control plane that ended with an UnusableError.
const ExitUnusable = 6

// UnusableError says why the data of a control plane cannot be used. Another start
// will not change that; the user must.
type UnusableError struct{ Err error }

func (e *UnusableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.Err }
