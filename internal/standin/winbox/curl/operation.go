// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"io"
	"os"
	"time"
)

// global holds what is said once for the whole command line.
type global struct {
	env        Env
	out        *output
	errs       io.Writer // --stderr
	closers    []io.Closer
	operations []*operation

	silent, showError, verbose, failEarly, parallel bool
	parallelMax                                     int
	interval                                        time.Duration // --rate: from one transfer's start to the next's
	variables                                       map[string]string
}

func (g *global) first() *operation { return g.operations[0] }

func (g *global) stderr() io.Writer {
	return g.errs
}

func (g *global) closeFiles() {
	for _, c := range g.closers {
		_ = c.Close() // files of messages
	}
}

// Authentication schemes, as bits: --anyauth is all that are implemented.
const (
	authBasic = 1 << iota
	authDigest
)

// A node is a URL with its output and its upload; options fill the first node
// that lacks them.
type node struct {
	url, output, upload                                         string
	hasURL, hasOutput, hasUpload, remoteName, noGlob, emptyBody bool
}

// An operation holds the options between two --next.
type operation struct {
	nodes []*node

	// the request
	method, requestTarget, userAgent, referer, byteRange, urlQuery string
	noAgent, autoReferer, head, get, isJSON, hasData, hasForm      bool
	headers, proxyHeaders                                          []string
	data                                                           []byte
	parts                                                          []part
	formEscape, compressed, pathAsIs, globOff                      bool
	timeCond                                                       byte // '+' since, '-' until
	condTime                                                       time.Time
	etagCompare, etagSave                                          string
	http10                                                         bool
	expectTimeout                                                  time.Duration

	// credentials
	auth                          int
	user, bearer                  string
	netrc, netrcOptional          bool
	netrcFile                     string
	cookies                       []string // name=value
	cookieFiles                   []string
	cookieJar                     string
	useCookies, junkSession       bool
	noUserInURL, keepAuth, follow bool
	post301, post302, post303     bool
	maxRedirs                     int

	// the way there
	resolves, connects                               []string
	network                                          string // tcp, tcp4, tcp6
	proxy, noProxy, proxyUser, proxyCAFile           string
	hasProxy, hasNoProxy, proxyTunnel, proxyInsecure bool
	noConnectHeaders                                 bool
	unixSocket                                       string
	insecure                                         bool
	caFile, caPath, certFile, keyFile, keyPassword   string
	minTLS, maxTLS                                   uint16
	proto, protoRedir                                []string
	protoDefault                                     string
	connectTimeout, maxTime                          time.Duration
	retries                                          int
	retryAll, retryRefused                           bool
	retryDelay, retryMaxTime                         time.Duration
	limitRate, maxFileSize, speedLimit               int64
	speedTime                                        time.Duration

	// the answer
	fail, failBody, include, ignoreLength                                 bool
	outputDir, headerFile, writeOut                                       string
	createDirs, remoteHeaderName, remoteNameAll, remoteTime, skipExisting bool
	removeOnError, noClobber, clobber, resume, resumeHere                 bool
	resumeFrom                                                            int64
}

// defaultRedirects is curl's default for --max-redirs.
const defaultRedirects = 50

func newOperation() *operation {
	return &operation{
		maxRedirs:     defaultRedirects,
		network:       "tcp",
		proto:         protocols,
		protoRedir:    []string{"http", "https"},
		expectTimeout: time.Second,
		// lib/connect.h: DEFAULT_CONNECT_TIMEOUT
		connectTimeout: 300 * time.Second,
	}
}

func (o *operation) hasURL() bool {
	for _, n := range o.nodes {
		if n.hasURL {
			return true
		}
	}
	return false
}

// fill returns the first node that a test accepts, or a new one.
func (o *operation) fill(open func(*node) bool) *node {
	for _, n := range o.nodes {
		if open(n) {
			return n
		}
	}
	n := &node{remoteName: o.remoteNameAll}
	o.nodes = append(o.nodes, n)
	return n
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// read returns the content of a file, or of standard input for "-".
func (g *global) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(g.env.Stdin)
	}
	return os.ReadFile(name)
}
