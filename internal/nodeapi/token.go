// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// CheckToken returns nil if the API server accepts the token, regardless of its holder's
// rights. The authority signs the server's certificate (PEM).
func CheckToken(ctx context.Context, serverURL string, authority []byte, token string) error {
	transport, err := serverTransport(authority)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	// The server refuses an unknown token even where anonymous users may read.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, serverURL+"/version", nil)
	if err != nil {
		return fmt.Errorf("ask whether the API server knows the bootstrap token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", "mullion-node")
	res, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask whether the API server knows the bootstrap token: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, answerLimit) // only the status counts
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("the API server %s does not know the bootstrap token yet", serverURL)
	case res.StatusCode/100 == 2, res.StatusCode == http.StatusForbidden:
		return nil
	}
	return fmt.Errorf("ask whether the API server knows the bootstrap token: status %s", res.Status)
}
