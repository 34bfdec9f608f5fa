// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"
)

// apiServer is a client for the only part of the Kubernetes API that the agent
// needs: its own Node. It uses plain HTTPS; client-go would make mullion.exe
// several times as large and slow to start.
type apiServer struct {
	url  string
	http *http.Client
}

// requestLimit is the time limit of a request. The agent retries anyway.
const requestLimit = 10 * time.Second

// answerLimit bounds an answer. A Node object is a few kB.
const answerLimit = 4 << 20

// newAPIServer returns a client that authenticates with the certificate in
// keyPair. It reads the file for each connection, because the kubelet renews it.
func newAPIServer(url string, ca []byte, keyPair string) (*apiServer, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("read CA certificate: no certificate found")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				cert, err := tls.LoadX509KeyPair(keyPair, keyPair)
				return &cert, err
			},
		},
		ForceAttemptHTTP2: false,
		MaxIdleConns:      1,
		// Longer than the agent's interval in a steady state, shorter than any
		// certificate's life.
		IdleConnTimeout: time.Minute,
	}
	return &apiServer{url: url, http: &http.Client{Transport: transport, Timeout: requestLimit}}, nil
}

// apiError is an answer other than 2xx.
type apiError struct {
	Code   int
	Reason string
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Reason, e.Code) }

func isNotFound(err error) bool {
	var e *apiError
	return errors.As(err, &e) && e.Code == http.StatusNotFound
}

func (a *apiServer) get(ctx context.Context, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mullion-agent")
	res, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		var status struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(answer, &status) != nil || status.Message == "" {
			status.Message = http.StatusText(res.StatusCode)
		}
		return &apiError{res.StatusCode, status.Message}
	}
	return json.Unmarshal(answer, out)
}

// node is the part of the Node object that the agent uses.
type node struct {
	UID     string // tells nodes of one name apart
	PodCIDR netip.Prefix
	Ready   bool
}

// node reads the agent's own node. A missing Node is returned as one without a
// pod range.
func (a *apiServer) node(ctx context.Context, name string) (node, error) {
	var v struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			PodCIDR string `json:"podCIDR"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := a.get(ctx, "/api/v1/nodes/"+name, &v); err != nil {
		if isNotFound(err) {
			return node{}, nil
		}
		return node{}, fmt.Errorf("get node %s: %w", name, err)
	}
	n := node{UID: v.Metadata.UID}
	if v.Spec.PodCIDR != "" {
		p, err := netip.ParsePrefix(v.Spec.PodCIDR)
		if err != nil {
			return node{}, fmt.Errorf("get node %s: pod range: %w", name, err)
		}
		n.PodCIDR = p
	}
	for _, c := range v.Status.Conditions {
		if c.Type == "Ready" {
			n.Ready = c.Status == "True"
		}
	}
	return n, nil
}
