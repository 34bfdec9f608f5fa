// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build linux

// Command hello is the program of the image mullion/hello, which `make build` builds for
// examples/mixed.yaml: a web server that reports where it runs and, if the variable
// BACKEND holds a URL, adds the response from there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// askLimit is the timeout of a request to the back end, answerLimit the maximum number of
// bytes read from its response.
const (
	askLimit    = 5 * time.Second
	answerLimit = 1 << 20
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	srv := &http.Server{Addr: ":80", ReadHeaderTimeout: askLimit, Handler: answer(name, os.Getenv("BACKEND"))}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	fmt.Println("Listening at http://*:80/")
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(name, backend string) http.Handler {
	client := &http.Client{Timeout: askLimit}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := fmt.Sprintf("Linux container %s\n", name)
		if backend != "" {
			behind, err := ask(r.Context(), client, backend)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			text += "behind it: " + behind
		}
		// An error means that the client has gone.
		_, _ = io.WriteString(w, text)
	})
}

func ask(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	return string(body), err
}
