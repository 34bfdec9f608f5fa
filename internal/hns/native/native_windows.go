// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package native

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// Service calls the DLLs. The calls block and ignore their context: the DLLs do not
// support cancellation.
type Service struct {
	network, call *windows.LazyDLL
}

var _ hns.API = (*Service)(nil)

// New returns a service; the DLLs are loaded with the first call.
func New() *Service {
	return &Service{network: windows.NewLazySystemDLL("computenetwork.dll"),
		call: windows.NewLazySystemDLL("vmcompute.dll")}
}

// suffix of the names of the functions of a kind.
func suffix(kind hns.Kind) string {
	return [...]string{"", "Network", "Endpoint", "Namespace", "LoadBalancer", "SdnRoute"}[kind]
}

// failure converts a function's result into an error. Text in the error record is a
// failure whatever the code says: that is how the Go clients see it.
func failure(op string, code hresult.Code, record string) error {
	if !code.Failed() && record == "" {
		return nil
	}
	e := &hresult.Error{Code: code, Op: op}
	var r schema.ErrorRecord
	if json.Unmarshal([]byte(record), &r) == nil {
		text := strings.TrimSuffix(r.Error, " ")
		e.Detail = strings.TrimSpace(strings.TrimPrefix(text, hresult.Text(code)))
	}
	if !code.Failed() {
		e.Code, e.Detail = hresult.Unexpected, "success with an error record: "+record
	}
	return e
}

// Enumerate implements hns.API.
func (s *Service) Enumerate(_ context.Context, kind hns.Kind, query string) (string, error) {
	name := "HcnEnumerate" + suffix(kind) + "s"
	r, err := s.invoke(s.network, name, textArg(query), outString, outRecord)
	return r.text, orFailure(err, name, r)
}

func orFailure(err error, op string, r result) error {
	if err != nil {
		return err
	}
	return failure(op, r.code, r.record)
}

// Create implements hns.API.
func (s *Service) Create(ctx context.Context, kind hns.Kind, network, id schema.GUID,
	settings string) (schema.GUID, error) {
	name := "HcnCreate" + suffix(kind)
	args := []arg{guidArg(id), textArg(settings), outHandle, outRecord}
	if kind == hns.Endpoint {
		if network.IsZero() {
			var doc schema.Endpoint
			if err := json.Unmarshal([]byte(settings), &doc); err != nil {
				return id, hresult.Errorf(hresult.InvalidJSON, "%s: %w", name, err)
			}
			var err error
			if network, err = schema.ParseGUID(doc.HostComputeNetwork); err != nil {
				return id, hresult.Errorf(hresult.InvalidArgument, "%s: %w", name, err)
			}
		}
		on, err := s.open(hns.Network, network)
		if err != nil {
			return id, err
		}
		defer s.close(hns.Network, on)
		args = append([]arg{handleArg(on)}, args...)
	}
	r, err := s.invoke(s.network, name, args...)
	if err := orFailure(err, name, r); err != nil {
		return id, err
	}
	defer s.close(kind, r.handle)
	text, err := s.properties(kind, r.handle, "")
	if err != nil {
		return id, err
	}
	var doc struct{ ID string }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return id, fmt.Errorf("%s: decode properties: %w", name, err)
	}
	return schema.ParseGUID(doc.ID)
}

func (s *Service) open(kind hns.Kind, id schema.GUID) (uintptr, error) {
	name := "HcnOpen" + suffix(kind)
	r, err := s.invoke(s.network, name, guidArg(id), outHandle, outRecord)
	return r.handle, orFailure(err, name, r)
}

// close releases a handle. There is no remedy for a failure.
func (s *Service) close(kind hns.Kind, handle uintptr) {
	_, _ = s.invoke(s.network, "HcnClose"+suffix(kind), handleArg(handle))
}

func (s *Service) properties(kind hns.Kind, handle uintptr, query string) (string, error) {
	name := "HcnQuery" + suffix(kind) + "Properties"
	r, err := s.invoke(s.network, name, handleArg(handle), textArg(query), outString, outRecord)
	return r.text, orFailure(err, name, r)
}

// Open implements hns.API.
func (s *Service) Open(_ context.Context, kind hns.Kind, id schema.GUID) error {
	handle, err := s.open(kind, id)
	if err == nil {
		s.close(kind, handle)
	}
	return err
}

// Query implements hns.API.
func (s *Service) Query(_ context.Context, kind hns.Kind, id schema.GUID, query string) (string, error) {
	handle, err := s.open(kind, id)
	if err != nil {
		return "", err
	}
	defer s.close(kind, handle)
	return s.properties(kind, handle, query)
}

// Modify implements hns.API.
func (s *Service) Modify(_ context.Context, kind hns.Kind, id schema.GUID, settings string) error {
	handle, err := s.open(kind, id)
	if err != nil {
		return err
	}
	defer s.close(kind, handle)
	name := "HcnModify" + suffix(kind)
	r, err := s.invoke(s.network, name, handleArg(handle), textArg(settings), outRecord)
	return orFailure(err, name, r)
}

// Delete implements hns.API.
func (s *Service) Delete(_ context.Context, kind hns.Kind, id schema.GUID) error {
	name := "HcnDelete" + suffix(kind)
	r, err := s.invoke(s.network, name, guidArg(id), outRecord)
	return orFailure(err, name, r)
}

// Call implements hns.API.
func (s *Service) Call(_ context.Context, method, path, request string) (string, error) {
	r, err := s.invoke(s.call, "HNSCall", textArg(method), textArg(path), textArg(request), outString)
	return r.text, orFailure(err, "HNSCall "+method+" "+path, r)
}
