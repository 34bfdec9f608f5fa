// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hresult names the Windows error codes that the emulated services
// return. The numbers are Windows' own, so that an unmodified client takes the
// branch that it takes on Windows.
package hresult

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Code is an HRESULT: bit 31 means failure, bits 16-26 are the facility.
type Code uint32

// General codes, from winerror.h as golang.org/x/sys/windows v0.46.0 has them
// in zerrors_windows.go. A Win32 error n is the HRESULT 0x80070000+n.
const (
	OK                  Code = 0
	NotImplemented      Code = 0x80004001 // E_NOTIMPL
	Pointer             Code = 0x80004003 // E_POINTER
	Fail                Code = 0x80004005 // E_FAIL
	Unexpected          Code = 0x8000FFFF // E_UNEXPECTED
	AccessDenied        Code = 0x80070005 // ERROR_ACCESS_DENIED
	OutOfMemory         Code = 0x8007000E // ERROR_OUTOFMEMORY
	InvalidArgument     Code = 0x80070057 // ERROR_INVALID_PARAMETER
	AlreadyExists       Code = 0x800700B7 // ERROR_ALREADY_EXISTS
	DiskFull            Code = 0x80070070 // ERROR_DISK_FULL
	NotFound            Code = 0x80070490 // ERROR_NOT_FOUND
	ServerUnavailable   Code = 0x800706BA // RPC_S_SERVER_UNAVAILABLE
	ObjectAlreadyExists Code = 0x80071392 // ERROR_OBJECT_ALREADY_EXISTS
	// ComputeSystemDoesNotExist is HCS_E_SYSTEM_NOT_FOUND.
	ComputeSystemDoesNotExist Code = 0xC037010E
)

// HCN_E_* codes: 0x803B0000+n. Source:
// https://learn.microsoft.com/virtualization/api/hcn/reference/hcnhresult
// (read 2026-11); the same values are in golang.org/x/sys/windows.
const (
	NetworkNotFound                Code = 0x803B0001
	EndpointNotFound               Code = 0x803B0002
	SubnetNotFound                 Code = 0x803B0005
	AdapterNotFound                Code = 0x803B0006
	PolicyNotFound                 Code = 0x803B0008
	InvalidNetwork                 Code = 0x803B000A
	InvalidNetworkType             Code = 0x803B000B
	InvalidEndpoint                Code = 0x803B000C
	InvalidPolicy                  Code = 0x803B000D
	InvalidPolicyType              Code = 0x803B000E
	InvalidRemoteEndpointOperation Code = 0x803B000F
	NetworkAlreadyExists           Code = 0x803B0010
	PolicyAlreadyExists            Code = 0x803B0012
	PortAlreadyExists              Code = 0x803B0013
	EndpointAlreadyAttached        Code = 0x803B0014
	RequestUnsupported             Code = 0x803B0015
	InvalidJSON                    Code = 0x803B001B
	InvalidJSONReference           Code = 0x803B001C
	InvalidIP                      Code = 0x803B001E
	EndpointNamespaceAlreadyExists Code = 0x803B002B
	EntityHasReferences            Code = 0x803B002C
	InvalidInternalPort            Code = 0x803B002D
	NamespaceAttachFailed          Code = 0x803B002E
	AddrInvalidOrReserved          Code = 0x803B002F
	InvalidPrefix                  Code = 0x803B0030
	InvalidSubnet                  Code = 0x803B0032
	EndpointNotAttached            Code = 0x803B0034
	EndpointNotLocal               Code = 0x803B0035
)

// message returns the text that HNS writes into its error record.
func message(c Code) string { return cmp.Or(messages()[c], "Unspecified error") }

// messages has the texts of the codes. The texts for not found, invalid address, reference required and object exists
// are quoted from reports about real nodes (issues of kubernetes/kubernetes and microsoft/Windows-Containers); the rest
// follow winerror.h.
var messages = sync.OnceValue(func() map[Code]string {
	return map[Code]string{
		NotImplemented:      "Not implemented",
		Pointer:             "Invalid pointer",
		AccessDenied:        "Access is denied.",
		OutOfMemory:         "Not enough memory resources are available to complete this operation.",
		InvalidArgument:     "The parameter is incorrect.",
		AlreadyExists:       "Cannot create a file when that file already exists.",
		DiskFull:            "There is not enough space on the disk.",
		NotFound:            "Element not found.",
		ServerUnavailable:   "The RPC server is unavailable.",
		ObjectAlreadyExists: "The object already exists.",

		// Codes that only HNS and HCS use.
		ComputeSystemDoesNotExist:      "A virtual machine or container with the specified identifier does not exist.",
		NetworkNotFound:                "The network was not found.",
		EndpointNotFound:               "The endpoint was not found.",
		SubnetNotFound:                 "The subnet was not found.",
		AdapterNotFound:                "The adapter was not found.",
		PolicyNotFound:                 "The policy was not found.",
		InvalidNetwork:                 "The network is invalid.",
		InvalidNetworkType:             "The network type is invalid.",
		InvalidEndpoint:                "The endpoint is invalid.",
		InvalidPolicy:                  "The policy is invalid.",
		InvalidPolicyType:              "The policy type is invalid.",
		InvalidRemoteEndpointOperation: "The remote endpoint operation is invalid.",
		NetworkAlreadyExists:           "A network with this name already exists.",
		PolicyAlreadyExists:            "A policy with this name already exists.",
		PortAlreadyExists:              "The specified port already exists.",
		// flannel compares this text (pkg/backend/hostgw/hostgw_windows.go).
		EndpointAlreadyAttached:        "This endpoint is already attached to the switch.",
		RequestUnsupported:             "The specified request is unsupported.",
		InvalidJSON:                    "Invalid JSON document string.",
		InvalidJSONReference:           "The reference is invalid in the JSON document.",
		InvalidIP:                      "The IP address is invalid.",
		EndpointNamespaceAlreadyExists: "The endpoint is already attached to a namespace.",
		EntityHasReferences:            "The specified entity cannot be removed while it still has references.",
		InvalidInternalPort:            "The internal port must exist and cannot be zero.",
		NamespaceAttachFailed:          "The requested operation for attach namespace failed.",
		AddrInvalidOrReserved:          "An address provided is invalid or reserved.",
		InvalidPrefix:                  "The prefix is invalid.",
		InvalidSubnet:                  "The subnet is invalid.",
		EndpointNotAttached:            "The endpoint is not attached.",
		EndpointNotLocal:               "The endpoint is not local.",
	}
})

// Failed reports whether c is a failure; S_FALSE and the like are not.
func (c Code) Failed() bool { return c&0x80000000 != 0 }

// String returns the number as Windows writes it and its meaning.
func (c Code) String() string {
	if c == OK {
		return "0x00000000"
	}
	return fmt.Sprintf("0x%08x %s", uint32(c), strings.TrimSuffix(message(c), "."))
}

// Error is a failure with a Windows code.
type Error struct {
	Code Code
	// Op is the attempted operation: verb and object, "create endpoint 1f3c…".
	Op string
	// Detail is appended to Windows' text, as HNS itself does with some codes
	// ("The reference is invalid in the JSON document. A Reference is required").
	Detail string
	// Err is the cause, if there is one.
	Err error
}

// Errorf returns an error of the code whose operation is the formatted text.
// An error among args that is formatted with %w becomes the cause.
func Errorf(c Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: c, Op: err.Error(), Err: errors.Unwrap(err)}
}

// Error implements error.
func (e *Error) Error() string {
	if e.Op == "" {
		return e.message()
	}
	return fmt.Sprintf("%s: %s", e.Op, e.Code)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, hresult.NetworkNotFound) work.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Error lets a code be the target of errors.Is.
func (c Code) Error() string { return c.String() }

// message is Windows' text with the detail.
func (e *Error) message() string {
	if e.Detail == "" {
		return message(e.Code)
	}
	return message(e.Code) + " " + e.Detail
}

// Of returns the code of err: OK for nil, the code of the *Error or Code in its
// chain, and Fail for any other error.
func Of(err error) Code {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if c, ok := errors.AsType[Code](err); ok {
		return c
	}
	return Fail
}

// Text is Windows' text for err, without the details for the log.
func Text(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.message()
	}
	return message(Of(err))
}
