// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// IsNotFound reports whether an error of the API server means that an object does not
// exist.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Code == http.StatusNotFound
}

// Read reads any object that the node may see.
func (c *Client) Read(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	body, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	answer, err := io.ReadAll(io.LimitReader(body, answerLimit))
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// Annotations returns the annotations of the node.
func (c *Client) Annotations(ctx context.Context) (map[string]string, error) {
	var o struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := c.Read(ctx, "/api/v1/nodes/"+c.name, &o); err != nil {
		return nil, fmt.Errorf("get node %s: %w", c.name, err)
	}
	return o.Metadata.Annotations, nil
}

// Annotate sets an annotation of the node. An empty value removes it.
func (c *Client) Annotate(ctx context.Context, key, value string) error {
	annotation := map[string]any{key: value}
	if value == "" {
		annotation[key] = nil
	}
	patch := map[string]any{"metadata": map[string]any{"annotations": annotation}}
	if err := c.send(ctx, http.MethodPatch, "/api/v1/nodes/"+c.name, patch); err != nil {
		return fmt.Errorf("annotate node %s: %w", c.name, err)
	}
	return nil
}

// send sends a request and ignores the content of a successful response.
func (c *Client) send(ctx context.Context, method, path string, content any) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	encoded, err := json.Marshal(content)
	if err != nil {
		return err
	}
	body, err := c.open(ctx, method, path, encoded)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(body, answerLimit)) // for the next request
	return err
}
