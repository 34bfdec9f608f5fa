// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package imageload hands image archives to an emulated host and lists its images: the
// way of `mullion load` and `mullion images`. A real node has no such interface (one would call ctr there),
// so it is kept apart from the CRI: HTTP over a Unix socket that lies in the
// host's own directory, which only root can enter.
package imageload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// requestPath is the path of both requests: POST with an archive as its body, and
// GET.
const requestPath = "/v1/images"

// maxAnswer bounds the response to Send, in bytes: names of images.
const maxAnswer = 1 << 20

// Image is an image that a host has taken in.
type Image struct {
	Names     []string `json:"names"` // as container runtimes spell them; its digest without a name
	OS        string   `json:"os"`
	Arch      string   `json:"arch,omitempty"`
	OSVersion string   `json:"osVersion,omitempty"` // "10.0.17763.6893"
	Size      int64    `json:"size,omitempty"`      // bytes, as the container runtime counts; 0 is unknown
	// StandIn marks an image of mullion's own, in the place of one that cannot run.
	StandIn bool `json:"standIn,omitempty"`
	// NoBase marks an image for Windows on which the host found no layers of Microsoft's
	// base images: only Wine's directories are below it, and no stand-in.
	NoBase bool `json:"noBase,omitempty"`
}

// Platform is the image's platform in words: "windows/amd64 10.0.17763.6893".
func (i Image) Platform() string {
	p := i.OS
	if i.Arch != "" {
		p += "/" + i.Arch
	}
	if i.OSVersion != "" {
		p += " " + i.OSVersion
	}
	return p
}

// Loader stores the images of an OCI or Docker archive and returns them.
type Loader func(ctx context.Context, archive io.Reader) ([]Image, error)

// Lister returns the images of a host.
type Lister func(ctx context.Context) ([]Image, error)

// answer is the body of the response, of either outcome.
type answer struct {
	Images []Image `json:"images,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// explain adds the remedy to the error of a full disk. A program that the loader runs, such as ctr, returns only a
// text.
func explain(text string) string {
	if !strings.Contains(text, syscall.ENOSPC.Error()) {
		return text
	}
	return text + ": the disk of the host is full; its images are as they were: delete pods or claims of this node, " +
		"or make its disk larger: `mullion stop`, then `mullion up --disk SIZE`"
}

// Serve answers requests on l until the context is cancelled.
func Serve(ctx context.Context, l net.Listener, load Loader, list Lister) error {
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, images []Image, err error) {
		code, a := http.StatusOK, answer{Images: images}
		if err != nil {
			code, a = http.StatusUnprocessableEntity, answer{Error: explain(err.Error())}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		// If this fails, the client has gone, and the error can be reported nowhere.
		_ = json.NewEncoder(w).Encode(a)
	}
	mux.HandleFunc("POST "+requestPath, func(w http.ResponseWriter, r *http.Request) {
		images, err := load(r.Context(), r.Body)
		reply(w, images, err)
	})
	mux.HandleFunc("GET "+requestPath, func(w http.ResponseWriter, r *http.Request) {
		images, err := list(r.Context())
		reply(w, images, err)
	})
	// No read timeout: an archive may come from a slow pipe. Only root connects.
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context {
			return ctx
		}}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve image loading: %w", err)
	}
	return nil
}

// Send gives an archive to the host behind the socket and returns the images in
// it that are for this host.
func Send(ctx context.Context, socket string, archive io.Reader) ([]Image, error) {
	images, err := ask(ctx, socket, http.MethodPost, archive)
	if err != nil {
		return nil, fmt.Errorf("load image: %w", err)
	}
	return images, nil
}

// List returns the images of the host behind the socket.
func List(ctx context.Context, socket string) ([]Image, error) {
	images, err := ask(ctx, socket, http.MethodGet, nil)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	return images, nil
}

func ask(ctx context.Context, socket, method string, body io.Reader) ([]Image, error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _,
		_ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://host"+requestPath, body)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return parseAnswer(resp.Status, text)
}

func parseAnswer(status string, body []byte) ([]Image, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%s: %.200s", status, bytes.TrimSpace(body))
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Images, nil
}
