// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

// Disks gives volumes disks of a fixed size. Mounting one is beyond a program under Wine, so the host of an emulated
// node does it.
type Disks interface {
	// Open mounts the disk of a volume at the volume's directory. It makes a disk that does not exist, of a size in
	// bytes; if the size is 0, the error is fs.ErrNotExist then. It may be repeated.
	Open(ctx context.Context, id string, bytes int64) error
	// Close unmounts it, and removes it with its data if remove is set. A volume need not have one.
	Close(ctx context.Context, id string, remove bool) error
}

// Remote is a Disks behind a DisksHandler.
type Remote struct {
	Address string // host:port
}

// diskLimit bounds the making of a disk.
const diskLimit = time.Minute

// Open implements Disks.
func (r Remote) Open(ctx context.Context, id string, bytes int64) error {
	return r.do(ctx, http.MethodPut, id, "bytes="+strconv.FormatInt(bytes, 10))
}

// Close implements Disks.
func (r Remote) Close(ctx context.Context, id string, remove bool) error {
	return r.do(ctx, http.MethodDelete, id, "remove="+strconv.FormatBool(remove))
}

func (r Remote) do(ctx context.Context, method, id, query string) error {
	ctx, cancel := context.WithTimeout(ctx, diskLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.Address+"/disks/"+id+"?"+query, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusNotFound:
		return fs.ErrNotExist
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return errors.Join(err, errors.New(string(text)))
}

// DisksHandler serves Remote. Its clients are programs of the node itself.
func DisksHandler(d Disks) http.Handler {
	mux := http.NewServeMux()
	handle := func(method string, call func(r *http.Request, id string) error) {
		mux.HandleFunc(method+" /disks/{id}", func(w http.ResponseWriter, r *http.Request) {
			id := r.PathValue("id")
			err := storage.CheckID(id)
			if err == nil {
				err = call(r, id)
			}
			switch {
			case err == nil:
				w.WriteHeader(http.StatusNoContent)
			case errors.Is(err, fs.ErrNotExist):
				w.WriteHeader(http.StatusNotFound)
			default:
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, err.Error()) // it fails if the client has gone
			}
		})
	}
	handle(http.MethodPut, func(r *http.Request, id string) error {
		bytes, err := storage.ParseBytes(r.FormValue("bytes"))
		if r.FormValue("bytes") == "0" {
			bytes, err = 0, nil
		}
		if err != nil {
			return err
		}
		return d.Open(r.Context(), id, bytes)
	})
	handle(http.MethodDelete, func(r *http.Request, id string) error {
		return d.Close(r.Context(), id, r.FormValue("remove") == "true")
	})
	return mux
}
