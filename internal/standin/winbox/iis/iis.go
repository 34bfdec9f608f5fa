// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package iis serves static files over HTTP the way a fresh IIS 10 does: its
// default documents, status codes and sub-statuses, headers, MIME types and
// W3C log. It has no ASP, ASP.NET, modules or configuration system.
// Behaviour: learn.microsoft.com/iis/configuration and
// learn.microsoft.com/troubleshoot/developer/webapps/iis/health-diagnostic-performance/http-status-code.
package iis

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// serverHeader is the value of the Server header.
const serverHeader = "Microsoft-IIS/10.0"

// defaultDocuments is IIS' list, in order: <defaultDocument> in a fresh
// applicationHost.config.
func defaultDocuments() []string {
	return []string{"Default.htm", "Default.asp", "index.htm", "index.html", "iisstart.htm"}
}

// hiddenSegments are path segments that request filtering hides (404.8):
// <hiddenSegments> in a fresh applicationHost.config.
func hiddenSegments() []string {
	return []string{"web.config", "bin", "App_code", "App_GlobalResources", "App_LocalResources", "App_WebReferences",
		"App_Data", "App_Browsers"}
}

// Handler serves one site.
type Handler struct {
	Root *os.Root // of the site's files
	Log  *Log     // may be nil

	once  sync.Once
	types map[string]string // by extension; set by once
}

// result is how a request ended, for the log.
type result struct {
	status, sub, win32 int
}

// ServeHTTP handles a request and logs it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	w.Header().Set("Server", serverHeader)
	// A fresh IIS says so whether or not ASP.NET is installed.
	w.Header().Set("X-Powered-By", "ASP.NET")
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	res := h.serve(rec, r)
	res.status = cmp.Or(res.status, rec.status)
	if h.Log != nil {
		h.Log.write(r, res, time.Since(began))
	}
}

func (h *Handler) serve(w *recorder, r *http.Request) result {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		w.Header().Set("Allow", "OPTIONS, TRACE, GET, HEAD, POST")
		w.Header().Set("Public", "OPTIONS, TRACE, GET, HEAD, POST")
		w.WriteHeader(http.StatusOK)
		return result{}
	case http.MethodTrace:
		return h.fail(w, r, http.StatusNotImplemented, 0)
	default:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS, TRACE")
		return h.fail(w, r, http.StatusMethodNotAllowed, 0)
	}
	// IIS treats backslashes as slashes and refuses colons in paths.
	name := strings.ReplaceAll(r.URL.Path, `\`, "/")
	if strings.ContainsAny(name, ":*?\"<>|\x00") {
		return h.fail(w, r, http.StatusNotFound, 0)
	}
	name = path.Clean("/" + name)[1:]
	for seg := range strings.SplitSeq(name, "/") {
		for _, hidden := range hiddenSegments() {
			if strings.EqualFold(seg, hidden) {
				return h.fail(w, r, http.StatusNotFound, 8)
			}
		}
	}
	name = cmp.Or(name, ".")
	st, err := h.Root.Stat(name)
	if err != nil {
		return h.failErr(w, r, err)
	}
	if !st.IsDir() {
		return h.file(w, r, name)
	}
	if !strings.HasSuffix(r.URL.Path, "/") {
		return moved(w, r)
	}
	for _, doc := range defaultDocuments() {
		full := path.Join(name, doc)
		if st, err := h.Root.Stat(full); err == nil && !st.IsDir() {
			return h.file(w, r, full)
		}
	}
	return h.fail(w, r, http.StatusForbidden, 14)
}

// moved redirects to the same path with a slash.
func moved(w *recorder, r *http.Request) result {
	target := *r.URL
	target.Path += "/"
	target.RawPath = ""
	location := "http://" + r.Host + target.RequestURI()
	w.Header().Set("Location", location)
	body := fmt.Sprintf("<head><title>Document Moved</title></head>\n"+
		"<body><h1>Object Moved</h1>This document may be found <a HREF=\"%s\">here</a></body>",
		html.EscapeString(location))
	w.page(r, http.StatusMovedPermanently, body)
	return result{}
}

func (h *Handler) file(w *recorder, r *http.Request, name string) result {
	h.once.Do(func() { h.types = mimeTypes() })
	// A file whose extension is not in the map is not served.
	kind, ok := h.types[strings.ToLower(path.Ext(name))]
	if !ok {
		return h.fail(w, r, http.StatusNotFound, 3)
	}
	f, err := h.Root.Open(name)
	if err != nil {
		return h.failErr(w, r, err)
	}
	defer f.Close() // opened for reading
	st, err := f.Stat()
	if err != nil {
		return h.failErr(w, r, err)
	}
	if st.IsDir() {
		return h.fail(w, r, http.StatusNotFound, 0)
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("ETag", etag(st.ModTime()))
	http.ServeContent(w, r, name, st.ModTime(), f)
	return result{}
}

// filetimeEpoch is 1601-01-01 in Unix seconds, where Windows' file times begin.
const filetimeEpoch = -11644473600

// etag returns the file's time in units of 100 ns, in hexadecimal, and IIS' change
// counter, which is always 0 since IIS 7.
func etag(t time.Time) string {
	return fmt.Sprintf("%q", fmt.Sprintf("%x:0", (t.Unix()-filetimeEpoch)*10_000_000+int64(t.Nanosecond()/100)))
}

func (h *Handler) failErr(w *recorder, r *http.Request, err error) result {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return h.fail(w, r, http.StatusUnauthorized, 3)
	case errors.Is(err, fs.ErrNotExist):
		res := h.fail(w, r, http.StatusNotFound, 0)
		res.win32 = 2 // ERROR_FILE_NOT_FOUND
		return res
	}
	// Names that no file can have, links that lead outside: there is no such file.
	return h.fail(w, r, http.StatusNotFound, 0)
}

// headline of each error page, as in IIS' custom error pages for remote
// clients; the text around it is our own.
func headline(status int) (string, string) {
	switch status {
	case http.StatusUnauthorized:
		return "401 - Unauthorized: Access is denied due to invalid credentials.", "The file may not be read by the " +
			"web server's account."
	case http.StatusForbidden:
		return "403 - Forbidden: Access is denied.", "The directory has no default document, and its content may not " +
			"be listed."
	case http.StatusNotFound:
		return "404 - File or directory not found.", "There is nothing at this address."
	case http.StatusMethodNotAllowed:
		return "405 - HTTP verb used to access this page is not allowed.", "Static files can be read and nothing else."
	case http.StatusNotImplemented:
		return "501 - Header values specify a method that is not implemented.", "The web server does not know this " +
			"method."
	}
	return fmt.Sprintf("%d - %s", status, http.StatusText(status)), ""
}

func (h *Handler) fail(w *recorder, r *http.Request, status, sub int) result {
	head, text := headline(status)
	w.page(r, status, fmt.Sprintf(`<!DOCTYPE html>
<html>
<head><meta charset="utf-8"><title>%s</title></head>
<body>
<h1>Server Error</h1>
<h2>%s</h2>
<h3>%s</h3>
</body>
</html>
`, head, head, text))
	return result{status: status, sub: sub}
}

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) page(r *http.Request, status int, body string) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		// A disconnected client needs no response.
		_, _ = io.WriteString(w.ResponseWriter, body)
	}
}

// mimeTypes returns the types in use today of the <staticContent> section of a
// fresh applicationHost.config, by extension.
func mimeTypes() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(mimeTable) {
		kind, exts, _ := strings.Cut(strings.TrimSpace(line), " ")
		for e := range strings.FieldsSeq(exts) {
			m["."+e] = kind
		}
	}
	return m
}

const mimeTable = `application/javascript js
application/json json
application/manifest+json webmanifest
application/octet-stream bin cab csv cur deploy eot exe hhk hxd lzh msi psd psm rar sea snp toc u32 xsn
application/pdf pdf
application/postscript ai eps ps
application/rtf rtf
application/vnd.ms-excel xla xlc xlm xls xlt xlw
application/vnd.ms-fontobject eot
application/vnd.ms-powerpoint pot pps ppt
application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
application/msword doc dot
application/wasm wasm
application/x-compressed tgz
application/x-gzip gz
application/x-tar tar
application/x-x509-ca-cert cer crt der
application/x-zip-compressed zip
application/xaml+xml xaml
application/xhtml+xml xht xhtml
application/font-woff woff
font/woff2 woff2
application/font-sfnt ttf
font/otf otf
audio/aac aac
audio/basic au snd
audio/mp4 m4a
audio/mpeg mp3
audio/ogg oga
audio/wav wav
image/bmp bmp dib
image/gif gif
image/jpeg jpe jpeg jpg
image/png png pnz
image/svg+xml svg svgz
image/tiff tif tiff
image/webp webp
image/x-icon ico
text/calendar ics
text/css css
text/html htm html
text/plain asm bas c cnf cpp h log map txt vcs xdr
text/richtext rtx
text/scriptlet sct
text/tab-separated-values tsv
text/vbscript vbs
text/xml disco dtd mno vml wsdl xml xsd xsf xsl xslt
video/mp4 mp4 m4v mp4v
video/mpeg m1v mp2 mpa mpe mpeg mpg mpv2
video/ogg ogg ogv
video/quicktime mov qt
video/webm webm
video/x-ms-wmv wmv
video/x-msvideo avi
`
