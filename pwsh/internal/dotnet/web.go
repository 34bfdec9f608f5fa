// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"bytes"
	"context"
	"crypto/md5"  //nolint:gosec // scripts compute checksums with it
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"errors"
	"hash"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// HTTPClient returns a client over the handlers' network. Insecure accepts any
// certificate.
func HTTPClient(r *interp.Runner, timeout time.Duration, insecure bool) (*http.Client, error) {
	n := r.Handlers().Net
	if n == nil {
		return nil, interp.NotImplemented("the network")
	}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return n.Dial(ctx, network, addr)
		},
		Proxy:              http.ProxyFromEnvironment,
		DisableKeepAlives:  true,
		DisableCompression: false,
	}
	if insecure {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the script asked for it
	}
	return &http.Client{Transport: t, Timeout: timeout}, nil
}

// WebException returns the error of a failed request, with its response if there
// was one.
func WebException(r *interp.Runner, err error, resp any, status string) *interp.Exception {
	msg := "Unable to connect to the remote server"
	kind := "ConnectFailure"
	var ne net.Error
	var dns *net.DNSError
	switch {
	case resp != nil:
		msg, kind = status, "ProtocolError"
	case errors.As(err, &dns):
		msg, kind = "The remote name could not be resolved: '"+dns.Name+"'", "NameResolutionFailure"
	case errors.As(err, &ne) && ne.Timeout():
		msg, kind = "The operation has timed out.", "Timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		msg, kind = "The underlying connection was closed: The connection was closed unexpectedly.", "ConnectionClosed"
	}
	typ := "System.Net.WebException"
	if r.Edition() != 0 && resp != nil {
		typ = "Microsoft.PowerShell.Commands.HttpResponseException"
	}
	e := interp.Failf(typ, "WebCmdletWebResponseException", "InvalidOperation", nil, "%s", msg)
	e.Props = []value.Prop{{Name: "Response", Value: resp}, {Name: "Status", Value: kind}}
	return e
}

// webClient is System.Net.WebClient.
type webClient struct {
	header   http.Header
	response http.Header
}

func (w *webClient) do(c *interp.Call, verb string, body []byte) ([]byte, error) {
	h, err := HTTPClient(c.R, 100*time.Second, false) // WebClient's own limit
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(c.R.Context(), verb, c.Str(0), bytes.NewReader(body))
	if err != nil {
		return nil, argError("Invalid URI: %s", c.Str(0))
	}
	maps.Copy(req.Header, w.header)
	resp, err := h.Do(req)
	if err != nil {
		return nil, WebException(c.R, err, nil, "")
	}
	defer resp.Body.Close() // read only
	w.response = resp.Header
	b, err := io.ReadAll(io.LimitReader(resp.Body, value.MaxItems))
	if err != nil {
		return nil, WebException(c.R, err, nil, "")
	}
	if resp.StatusCode >= 400 {
		return nil, WebException(c.R, nil, value.NewObject("System.Net.HttpWebResponse", "StatusCode",
			i32(resp.StatusCode)), "The remote server returned an error: ("+value.String(i32(resp.StatusCode))+") "+
			http.StatusText(resp.StatusCode)+".")
	}
	return b, nil
}

// webClasses are WebClient and its related types.
func webClasses() []*interp.Class {
	protocols := numbered("System.Net.SecurityProtocolType", true, member("SystemDefault", 0), member("Ssl3", 48),
		member("Tls", 192), member("Tls11", 768), member("Tls12", 3072), member("Tls13", 12288))
	return []*interp.Class{
		{Name: "System.Net.WebClient", New: func(c *interp.Call) (any, error) {
			return instance(c.R, "System.Net.WebClient", &webClient{header: http.Header{}}, nil), nil
		}, Props: []interp.Property{
			getErr("Headers", func(c *interp.Call, w *webClient) (any, error) {
				return instance(c.R, "System.Net.WebHeaderCollection", w.header, nil), nil
			}),
			getErr("ResponseHeaders", func(c *interp.Call, w *webClient) (any, error) {
				return instance(c.R, "System.Net.WebHeaderCollection", w.response, nil), nil
			}),
			rw("Encoding", func(*webClient) any { return "utf-8" }, func(*interp.Call, *webClient, any) error {
				return nil
			}),
			rw("UseDefaultCredentials", func(*webClient) any { return false },
				func(*interp.Call, *webClient, any) error {
					return nil
				}),
		}, Methods: []interp.Method{
			method("DownloadString", func(c *interp.Call, w *webClient) (any, error) {
				b, err := w.do(c, "GET", nil)
				return string(b), err
			}),
			method("DownloadData", func(c *interp.Call, w *webClient) (any, error) {
				b, err := w.do(c, "GET", nil)
				return value.NewBytes(b), err
			}),
			method("DownloadFile", func(c *interp.Call, w *webClient) (any, error) {
				b, err := w.do(c, "GET", nil)
				if err != nil {
					return nil, err
				}
				return interp.Void, WriteFile(c.R, c.Str(1), b, false)
			}),
			method("UploadString", func(c *interp.Call, w *webClient) (any, error) {
				verb, body := "POST", c.Str(1)
				if c.N() > 2 {
					verb, body = c.Str(1), c.Str(2)
				}
				b, err := w.do(c, verb, []byte(body))
				return string(b), err
			}),
		}},
		{Name: "System.Net.ServicePointManager", Statics: []interp.Property{
			{Name: "SecurityProtocol",
				Get: func(*interp.Call) (any, error) { return interp.EnumOf(protocols, "Tls12") },
				Set: func(*interp.Call, any) error {
					return nil
				}},
			{Name: "ServerCertificateValidationCallback", Get: func(*interp.Call) (any, error) { return nil, nil },
				Set: func(*interp.Call, any) error {
					return interp.NotImplemented("[ServicePointManager]::ServerCertificateValidationCallback; pwsh's " +
						"-SkipCertificateCheck is")
				}},
			{Name: "Expect100Continue", Get: func(*interp.Call) (any, error) { return true, nil },
				Set: func(*interp.Call, any) error {
					return nil
				}},
		}},
		protocols,
		httpStatus(),
	}
}

func httpStatus() *interp.Class {
	k := &interp.Class{Name: "System.Net.HttpStatusCode", Base: "System.Enum"}
	for code := 100; code < 600; code++ {
		if t := http.StatusText(code); t != "" {
			var name strings.Builder
			for _, r := range t {
				if r != ' ' && r != '-' && r != '\'' {
					name.WriteString(string(r))
				}
			}
			k.Enum = append(k.Enum, member(name.String(), int64(code)))
		}
	}
	return k
}

// securityClasses returns the hash algorithms.
func securityClasses() []*interp.Class {
	algorithms := []struct {
		name string
		new  func() hash.Hash
	}{{"MD5", md5.New}, {"SHA1", sha1.New}, {"SHA256", sha256.New}, {"SHA384", sha512.New384}, {"SHA512", sha512.New}}
	var list []*interp.Class
	for _, a := range algorithms {
		make := func(c *interp.Call) (any, error) {
			return instance(c.R, "System.Security.Cryptography."+a.name, a.new, nil), nil
		}
		compute := method("ComputeHash", func(c *interp.Call, f func() hash.Hash) (any, error) {
			h := f()
			if s, ok := data[*stream](c.Arg(0)); ok && s.r != nil {
				if _, err := io.Copy(h, s.r); err != nil {
					return nil, ioError(err)
				}
				return value.NewBytes(h.Sum(nil)), nil
			}
			b, err := value.Bytes(c.Arg(0))
			h.Write(b)
			return value.NewBytes(h.Sum(nil)), err
		})
		list = append(list, &interp.Class{
			Name:          "System.Security.Cryptography." + a.name,
			StaticMethods: []interp.Method{static("Create", make)},
			Methods:       []interp.Method{compute},
		})
	}
	return list
}

// processClasses returns the parts of System.Diagnostics that scripts reach.
func processClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.Diagnostics.Process", StaticMethods: []interp.Method{
			static("GetCurrentProcess", func(c *interp.Call) (any, error) {
				s := c.R.Handlers().System
				if s == nil {
					return nil, interp.NotImplemented("the process list")
				}
				list, err := s.Processes(c.R.Context())
				if err != nil {
					return nil, err
				}
				for _, p := range list {
					if p.ID == s.PID() {
						return ProcessObject(p), nil
					}
				}
				return ProcessObject(host.ProcessInfo{ID: s.PID(), Name: "powershell"}), nil
			}),
		}},
	}
}

// ProcessObject returns a process in the form of Get-Process.
func ProcessObject(p host.ProcessInfo) *value.Object {
	o := value.NewObject("System.Diagnostics.Process", "Id", i32(p.ID), "ProcessName", p.Name, "Name", p.Name, "Path",
		nilEmpty(p.Path), "Handles", int32(0), "WorkingSet", int32(min(p.WorkingSet, 1<<31-1)), "WorkingSet64",
		p.WorkingSet, "WS", p.WorkingSet, "CPU", p.CPU.Seconds(), "TotalProcessorTime", value.TimeSpan(p.CPU),
		"HasExited", false, "SI", int32(0), "SessionId", int32(0), "Responding", true, "MachineName", ".")
	if !p.Started.IsZero() {
		o.Set("StartTime", value.DateTime{Time: p.Started})
	}
	o.Str = "System.Diagnostics.Process (" + p.Name + ")"
	o.Show = []string{"Handles", "WS", "CPU", "Id", "SI", "ProcessName"}
	return o
}
