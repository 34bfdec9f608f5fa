// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mullion-k8s/mullion/internal/registry"
)

const (
	// maxAnswer bounds each body that a registry sends, in bytes. The largest
	// known indexes have about 50 kB, manifests and configs about 100 kB.
	maxAnswer = 1 << 20
	// maxRedirects in a row: registries redirect once, to a store of blobs.
	maxRedirects = 3
	// connectLimit is for one connection.
	connectLimit = 5 * time.Second
)

// dialer makes connections that a pod author may cause. It refuses addresses
// meant only for this machine: link-local ones, where clouds serve credentials,
// and loopback ones, unless the name of the registry is one.
type dialer struct {
	loopback bool
	proxies  []string // addresses of proxies, which the environment may place anywhere
}

func newDialer(host string) *dialer {
	d := &dialer{loopback: registry.Loopback(hostname(host))}
	for _, u := range []string{"https://" + host, "http://" + host, "https://registry.invalid"} {
		req, err := http.NewRequest(http.MethodGet, u, nil)
		if err != nil {
			continue
		}
		if proxy, err := http.ProxyFromEnvironment(req); err == nil && proxy != nil {
			d.proxies = append(d.proxies, proxyAddress(proxy))
		}
	}
	return d
}

func proxyAddress(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443", "socks5": "1080",
		"socks5h": "1080"}[u.Scheme])
}

// hostname is a host without its port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: connectLimit}
	if !slices.Contains(d.proxies, address) {
		// Control sees the address behind the name, of each attempt.
		plain.Control = func(_, address string, _ syscall.RawConn) error { return d.check(address) }
	}
	return plain.DialContext(ctx, network, address)
}

func (d *dialer) check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: connect to %s: %w", errRefused, address, err)
	}
	ip := at.Addr().Unmap()
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || ip.IsLoopback() && !d.loopback ||
		slices.Contains(metadata(), ip) {
		return fmt.Errorf("%w: connect to %s, which is meant only for this machine", errRefused, ip)
	}
	return nil
}

// metadata are addresses of clouds' metadata services that are not link-local:
// AWS (IPv6), Alibaba Cloud, Oracle Cloud, Azure.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"),
		netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("168.63.129.16"),
	}
}

// bounded limits the length of answers.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{resp.Body, maxAnswer}
	return resp, nil
}

// CloseIdleConnections implements the interface that
// http.Client.CloseIdleConnections uses.
func (b bounded) CloseIdleConnections() {
	(&http.Client{Transport: b.next}).CloseIdleConnections()
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, invalidf("an answer of more than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, invalidf("an answer of more than %d bytes", maxAnswer)
	}
	return n, err
}

// connection reads from one repository, with one set of credentials.
type connection struct {
	repo   name.Repository
	client *http.Client
}

// connect finds out how the registry authenticates clients, and requests a
// token.
func connect(ctx context.Context, repo name.Repository, auth authn.Authenticator,
	base http.RoundTripper) (*connection, error) {
	tr, err := transport.NewWithContext(ctx, repo.Registry, auth, transport.NewUserAgent(base, "mullion"),
		[]string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	return &connection{repo: repo, client: &http.Client{
		Transport: tr,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return invalidf("more than %d redirects", maxRedirects)
			}
			return nil
		},
	}}, nil
}

// accepted are the media types of manifests, the usual first.
func accepted() string {
	var out []string
	for _, t := range []types.MediaType{types.OCIImageIndex, types.DockerManifestList, types.OCIManifestSchema1,
		types.DockerManifestSchema2} {
		out = append(out, string(t))
	}
	return strings.Join(out, ", ")
}

// manifest gets a manifest or an index by its tag or digest; a digest is
// verified.
func (c *connection) manifest(ctx context.Context, id string) ([]byte, types.MediaType, error) {
	body, header, err := c.get(ctx, "manifests", id, accepted())
	if err != nil {
		return nil, "", fmt.Errorf("get manifest %s: %w", id, err)
	}
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return body, types.MediaType(strings.TrimSpace(media)), nil
}

// blob gets a small blob and verifies it.
func (c *connection) blob(ctx context.Context, digest string) ([]byte, error) {
	body, _, err := c.get(ctx, "blobs", digest, "")
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", digest, err)
	}
	return body, nil
}

func (c *connection) get(ctx context.Context, kind, id, accept string) ([]byte, http.Header, error) {
	u := url.URL{Scheme: c.repo.Scheme(), // the transport puts the one that it found
		Host: c.repo.RegistryStr(), Path: "/v2/" + c.repo.RepositoryStr() + "/" + kind + "/" + id}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, err
	}
	return body, resp.Header, verify(body, id)
}

// verify checks content against its digest; a tag has no digest to check.
func verify(body []byte, id string) error {
	algorithm, hex, ok := strings.Cut(id, ":")
	if !ok {
		return nil
	}
	h, err := v1.Hasher(algorithm)
	if err != nil {
		return invalidf("a digest by %s", clip(algorithm, 32))
	}
	h.Write(body) // a hash never fails
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != hex {
		return invalidf("content that has the digest %s:%s, not %s", algorithm, got, clip(id, 140))
	}
	return nil
}
