// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package wire carries hns.API between the DLLs in native/ and the service, over
// TCP on the loopback address of an emulated host.
//
// A connection carries one call after the other. All numbers are little-endian.
// Strings are UTF-16 as on Windows, so that the DLLs need not convert them:
//
//	request:  u32 length of the rest
//	          u8 version (1)   u8 kind   u8 verb   u8 zero
//	          16 byte object id   16 byte network id   (Windows' layout)
//	          3 strings: u32 length in bytes, then that many bytes
//	response: u32 length of the rest
//	          u8 version (1)   u8 zero   u8 zero   u8 zero
//	          u32 HRESULT
//	          16 byte object id
//	          2 strings: properties and error record; length 0xFFFFFFFF means no string
//
// The strings of a request are: settings or query, unused, unused; for HNSCall
// method, path, request. The kind is hns.Kind, 0 for HNSCall. The DLLs enumerate by
// the verb list: the properties are the JSON array of the IDs, and after a NUL each,
// the documents. The answer to the verb create is such a list of one object.
//
// There is no authentication: only programs of the emulated host can connect to
// the loopback address of its network namespace. Containers have their own
// namespaces and cannot (docs/internals/hns.md).
package wire
