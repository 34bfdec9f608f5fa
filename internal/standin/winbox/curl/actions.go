// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bytes"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
)

// setMaxRedirs accepts -1 for no limit.
func (c *client) setMaxRedirs(value string, _ bool) (err error) {
	if value == "-1" {
		c.opts.maxRedirs = math.MaxInt
		return nil
	}
	c.opts.maxRedirs, err = parseNumber(value)
	return err
}

func (c *client) setFail(_ string, on bool) error {
	c.opts.fail, c.opts.failBody = on, false
	return nil
}

func (c *client) setFailBody(_ string, on bool) error {
	c.opts.fail, c.opts.failBody = false, on
	return nil
}

func (c *client) setHead(_ string, on bool) error {
	c.opts.head, c.opts.include = on, on
	return nil
}

func (c *client) setUserAgent(value string, _ bool) error {
	c.opts.userAgent, c.opts.noAgent = value, value == ""
	return nil
}

func (c *client) setCACert(value string, _ bool) error {
	if _, err := os.Stat(value); err != nil {
		c.errorf("The file '%s' provided to --cacert does not exist", value)
		return errBadUse
	}
	c.opts.caFile = value
	return nil
}

// setWriteOut accepts a format, or @ and the name of a file with the format.
func (c *client) setWriteOut(value string, _ bool) error {
	data, err := c.content(value)
	if strings.HasPrefix(value, "@") {
		data = dropLineEnds(data)
	}
	c.opts.writeOut = string(data)
	return err
}

// addCookie accepts pairs and refuses a cookie file.
func (c *client) addCookie(value string, _ bool) error {
	if !strings.Contains(value, "=") {
		return errNotBuilt
	}
	c.opts.cookies = append(c.opts.cookies, value)
	return nil
}

// addHeader accepts a header, or @ and the name of a file of headers.
func (c *client) addHeader(value string, _ bool) error {
	if !strings.HasPrefix(value, "@") {
		if !strings.ContainsAny(value, ":;") {
			c.warnf("The provided HTTP header '%s' does not look like a header?", value)
		}
		c.opts.headers = append(c.opts.headers, value)
		return nil
	}
	data, err := c.content(value)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
			c.opts.headers = append(c.opts.headers, line)
		}
	}
	return err
}

func (c *client) addURL(value string, _ bool) error {
	if value == "" {
		return errBlank
	}
	c.opts.urls = append(c.opts.urls, value)
	return nil
}

func (c *client) addOutput(value string, _ bool) error {
	if value == "" {
		return errBlank
	}
	c.opts.outputs = append(c.opts.outputs, target{name: value})
	return nil
}

func (c *client) addRemoteName(_ string, on bool) error {
	if on {
		c.opts.outputs = append(c.opts.outputs, target{remote: true})
	}
	return nil
}

func (c *client) dataText(value string, _ bool) error {
	data, err := c.content(value)
	if strings.HasPrefix(value, "@") {
		data = dropLineEnds(data)
	}
	return c.addData(data, "&", err)
}

func (c *client) dataBinary(value string, _ bool) error {
	data, err := c.content(value)
	return c.addData(data, "&", err)
}

func (c *client) dataRaw(value string, _ bool) error { return c.addData([]byte(value), "&", nil) }

func (c *client) dataJSON(value string, _ bool) error {
	c.opts.isJSON = true
	data, err := c.content(value)
	return c.addData(data, "", err)
}

// dataEncoded reads content, =content, name=content, @file or name@file.
func (c *client) dataEncoded(value string, _ bool) error {
	i := strings.IndexByte(value, '=')
	if i < 0 {
		i = strings.IndexByte(value, '@')
	}
	if i < 0 {
		return c.addData([]byte(url.QueryEscape(value)), "&", nil)
	}
	name, content := value[:i], []byte(value[i+1:])
	var err error
	if value[i] == '@' {
		content, err = c.content(value[i:])
	}
	if name != "" {
		name += "="
	}
	return c.addData([]byte(name+url.QueryEscape(string(content))), "&", err)
}

func (c *client) addData(data []byte, separator string, err error) error {
	if len(c.opts.data) > 0 {
		c.opts.data = append(c.opts.data, separator...)
	}
	c.opts.data, c.opts.hasData = append(c.opts.data, data...), true
	return err
}

// dropLineEnds removes the bytes that file2string of src/tool_paramhlp.c removes.
func dropLineEnds(data []byte) []byte {
	return slices.DeleteFunc(bytes.Clone(data), func(c byte) bool { return c == '\r' || c == '\n' || c == 0 })
}
