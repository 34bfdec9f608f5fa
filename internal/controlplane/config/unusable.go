// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package config

// ExitUnusable is the exit code of a control plane that ended with an UnusableError, and of a host that
// cannot use what is installed. The supervisor does not restart them.
const ExitUnusable = 6

// UnusableError is the reason why the data of a control plane cannot be used. A restart
// does not help; the user must act.
type UnusableError struct{ Err error }

func (e *UnusableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.Err }
