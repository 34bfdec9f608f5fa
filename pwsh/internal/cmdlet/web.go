// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

const webParams = "Uri@0! UseBasicParsing?= Method Body:any< ContentType Headers:any TimeoutSec:int OutFile " +
	"PassThru? UserAgent MaximumRedirection:int UseDefaultCredentials?~ Credential:any SkipCertificateCheck? " +
	"SkipHttpErrorCheck? SessionVariable WebSession:any DisableKeepAlive?= InFile Proxy NoProxy?~ " +
	"AllowUnencryptedAuthentication?= MaximumRetryCount:int RetryIntervalSec:int CustomMethod StatusCodeVariable " +
	"ResponseHeadersVariable~ Authentication Token:any"

// webCmdlets are Invoke-WebRequest and Invoke-RestMethod.
func webCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Invoke-WebRequest", Aliases: []string{"iwr", "wget", "curl"}, Params: webParams,
			Fidelity: "the HTML is never parsed: as with -UseBasicParsing, but without Links and Images' properties " +
				"beyond href and src", Process: func(c *interp.Invocation) error {
				resp, body, err := request(c)
				if err != nil {
					return err
				}
				if saved, err := saveBody(c, body); err != nil || saved && !c.Switch("PassThru") {
					return err
				}
				return c.Write(responseObject(c, resp, body))
			}},
		{Name: "Invoke-RestMethod", Aliases: []string{"irm"}, Params: webParams + " FollowRelLink?",
			Process: func(c *interp.Invocation) error {
				resp, body, err := request(c)
				if err != nil {
					return err
				}
				if saved, err := saveBody(c, body); err != nil || saved && !c.Switch("PassThru") {
					return err
				}
				if ct := resp.Header.Get("Content-Type"); strings.Contains(ct, "json") || looksJSON(body) {
					if v, err := parseJSON(string(body), false, 1024); err == nil {
						if c.R.Edition() == 0 {
							return c.Write(v) // 5.1 does not enumerate
						}
						return c.WriteAll(v)
					}
				} else if strings.Contains(ct, "xml") {
					return interp.NotImplemented("an answer in XML")
				}
				return c.Write(string(body))
			}},
	}
}

func looksJSON(b []byte) bool {
	t := strings.TrimSpace(string(b))
	return strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}") || strings.HasPrefix(t, "[") &&
		strings.HasSuffix(t, "]")
}

// request sends the request that the arguments describe. A status of 400 and above
// is an error, with the response in the exception.
func request(c *interp.Invocation) (*http.Response, []byte, error) {
	for _, p := range []string{"WebSession", "SessionVariable", "Proxy", "Credential", "Authentication", "Token"} {
		if c.Has(p) {
			return nil, nil, interp.NotImplemented(c.Cmd.Name + " -" + p)
		}
	}
	req, err := buildRequest(c)
	if err != nil {
		return nil, nil, err
	}
	timeout := time.Duration(c.Int("TimeoutSec", 0)) * time.Second
	if timeout == 0 {
		timeout = 100 * time.Second // the cmdlet's default
	}
	h, err := dotnet.HTTPClient(c.R, timeout, c.Switch("SkipCertificateCheck"))
	if err != nil {
		return nil, nil, err
	}
	if n := c.Int("MaximumRedirection", 5); true { // the cmdlet's default
		h.CheckRedirect = func(_ *http.Request, via []*http.Request) error {
			if len(via) > n {
				return http.ErrUseLastResponse
			}
			return nil
		}
	}
	var resp *http.Response
	for try := 0; ; try++ {
		resp, err = h.Do(req)
		if err == nil || try >= c.Int("MaximumRetryCount", 0) {
			break
		}
		if serr := dotnet.Sleep(c.R, time.Duration(c.Int("RetryIntervalSec", 5))*time.Second); serr != nil {
			return nil, nil, serr
		}
	}
	if err != nil {
		if cerr := c.R.Context().Err(); cerr != nil {
			return nil, nil, interp.Abort(cerr)
		}
		return nil, nil, webError(c, dotnet.WebException(c.R, err, nil, ""))
	}
	defer resp.Body.Close() // read only
	body, err := io.ReadAll(io.LimitReader(resp.Body, value.MaxItems))
	if err != nil {
		return nil, nil, webError(c, dotnet.WebException(c.R, err, nil, ""))
	}
	if name := c.Str("StatusCodeVariable", ""); name != "" {
		if _, err := c.R.SetVariable(name, i32(resp.StatusCode), ""); err != nil {
			return nil, nil, err
		}
	}
	if resp.StatusCode >= 400 && !c.Switch("SkipHttpErrorCheck") {
		return nil, nil, statusError(c, resp, body)
	}
	return resp, body, nil
}

func webError(c *interp.Invocation, ex *interp.Exception) error {
	if c.R.Edition() != 0 && ex.Type == "System.Net.WebException" {
		ex.Type = "System.Net.Http.HttpRequestException"
	}
	return ex
}

func statusError(c *interp.Invocation, resp *http.Response, body []byte) error {
	msg := "The remote server returned an error: (" + value.String(i32(resp.StatusCode)) + ") " +
		http.StatusText(resp.StatusCode) + "."
	if c.R.Edition() != 0 {
		msg = "Response status code does not indicate success: " + value.String(i32(resp.StatusCode)) + " (" +
			http.StatusText(resp.StatusCode) + ")."
	}
	code := interp.EnumValue{Class: c.R.Class("System.Net.HttpStatusCode"), N: int64(resp.StatusCode)}
	o := value.NewObject("System.Net.HttpWebResponse", "StatusCode", code, "StatusDescription",
		http.StatusText(resp.StatusCode), "Headers", headerHash(resp.Header), "Content", string(body), "ContentLength",
		resp.ContentLength)
	ex := dotnet.WebException(c.R, nil, o, msg)
	rec := c.Record(ex)
	if len(body) > 0 && c.R.Edition() != 0 {
		rec.Details = string(body)
	}
	return c.Terminate(rec)
}

func buildRequest(c *interp.Invocation) (*http.Request, error) {
	target := c.Str("Uri", "")
	if !strings.Contains(target, "://") {
		target = "http://" + target
	}
	verb := strings.ToUpper(c.Str("CustomMethod", c.Str("Method", "GET")))
	if verb == "DEFAULT" {
		verb = "GET"
	}
	var body io.Reader
	contentType := c.Str("ContentType", "")
	if v, ok := c.Get("Body"); ok && v != nil {
		switch x := value.Unwrap(v).(type) {
		case *value.Hash:
			form := url.Values{}
			for _, k := range x.Keys() {
				fv, _ := x.Get(k)
				form.Set(value.String(k), c.R.Text(fv))
			}
			if verb == "GET" {
				sep := "?"
				if strings.Contains(target, "?") {
					sep = "&"
				}
				target += sep + form.Encode()
				break
			}
			body = strings.NewReader(form.Encode())
			if contentType == "" {
				contentType = "application/x-www-form-urlencoded"
			}
		case *value.Array:
			b, err := value.Bytes(x)
			if err != nil {
				return nil, err
			}
			body = strings.NewReader(string(b))
		default:
			body = strings.NewReader(c.R.Text(v))
			if contentType == "" && verb == "POST" {
				contentType = "application/x-www-form-urlencoded"
			}
		}
	} else if f := c.Str("InFile", ""); f != "" {
		b, err := c.R.ReadFile(f)
		if err != nil {
			return nil, err
		}
		body = strings.NewReader(string(b))
	}
	req, err := http.NewRequestWithContext(c.R.Context(), verb, target, body)
	if err != nil || req.URL.Host == "" {
		return nil, interp.Failf("System.UriFormatException", "UriFormatException", "InvalidArgument", target,
			"Invalid URI: The hostname could not be parsed.")
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	agent := "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.17763.1"
	if c.R.Edition() != 0 {
		agent = "Mozilla/5.0 (Windows NT 10.0; Microsoft Windows 10.0.17763; en-US) PowerShell/7.4.6"
	}
	req.Header.Set("User-Agent", c.Str("UserAgent", agent))
	if h, ok := value.Unwrap(c.Any("Headers")).(*value.Hash); ok {
		for _, k := range h.Keys() {
			v, _ := h.Get(k)
			if strings.EqualFold(value.String(k), "Host") {
				req.Host = c.R.Text(v)
				continue
			}
			req.Header.Set(value.String(k), c.R.Text(v))
		}
	}
	return req, nil
}

func saveBody(c *interp.Invocation, body []byte) (bool, error) {
	name := c.Str("OutFile", "")
	if name == "" {
		return false, nil
	}
	return true, dotnet.WriteFile(c.R, name, body, false)
}

func headerHash(h http.Header) *value.Hash {
	out := &value.Hash{}
	for _, k := range sortedKeys(h) {
		out.Set(k, strings.Join(h[k], ","))
	}
	return out
}

func responseObject(c *interp.Invocation, resp *http.Response, body []byte) *value.Object {
	var content any = string(body)
	ct := resp.Header.Get("Content-Type")
	if ct != "" && !strings.HasPrefix(ct, "text/") && !strings.Contains(ct, "json") && !strings.Contains(ct, "xml") &&
		!strings.Contains(ct, "javascript") {
		content = value.NewBytes(body)
	}
	var raw strings.Builder
	raw.WriteString("HTTP/1.1 " + resp.Status + "\r\n")
	for _, k := range sortedKeys(resp.Header) {
		raw.WriteString(k + ": " + strings.Join(resp.Header[k], ",") + "\r\n")
	}
	raw.WriteString("\r\n" + string(body))
	// Compiled here and not once for all: few scripts come this way, and the
	// start of the program must not pay for it.
	linkTag := regexp.MustCompile(`(?is)<a\s[^>]*href\s*=\s*["']?([^"'\s>]+)[^>]*>(.*?)</a>`)
	imageTag := regexp.MustCompile(`(?is)<img\s[^>]*src\s*=\s*["']?([^"'\s>]+)[^>]*>`)
	var links, images []any
	for _, m := range linkTag.FindAllStringSubmatch(string(body), -1) {
		links = append(links, value.NewObject("", "outerHTML", m[0], "tagName", "A", "href", m[1]))
	}
	for _, m := range imageTag.FindAllStringSubmatch(string(body), -1) {
		images = append(images, value.NewObject("", "outerHTML", m[0], "tagName", "IMG", "src", m[1]))
	}
	o := value.NewObject("Microsoft.PowerShell.Commands.BasicHtmlWebResponseObject", "StatusCode", i32(resp.StatusCode),
		"StatusDescription", http.StatusText(resp.StatusCode), "Content", content, "RawContent", raw.String(),
		"Headers", headerHash(resp.Header), "Images", value.NewArray(images...), "InputFields", value.NewArray(),
		"Links", value.NewArray(links...), "RawContentLength", int64(len(body)), "RelationLink", &value.Hash{},
		"BaseResponse", value.NewObject("System.Net.HttpWebResponse", "StatusCode",
			interp.EnumValue{Class: c.R.Class("System.Net.HttpStatusCode"), N: int64(resp.StatusCode)}, "ResponseUri",
			resp.Request.URL.String(), "ContentType", ct))
	o.Str = string(body)
	return asList(o, "StatusCode", "StatusDescription", "Content", "RawContent", "Headers", "Images", "InputFields",
		"Links", "RawContentLength")
}

func sortedKeys(h http.Header) []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	sortStrings(keys)
	return keys
}
