// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// Mistakes in the use of an option: src/tool_helpers.c, param2text.
var (
	errUnknown     = errors.New("is unknown")
	errNoParameter = errors.New("requires parameter")
	errBadUse      = errors.New("is badly used here")
	errNumber      = errors.New("expected a proper numerical parameter")
	errNegative    = errors.New("expected a positive numerical parameter")
	errTooLarge    = errors.New("too large number")
	errNotBuilt    = errors.New("the installed libcurl version does not support this")
	errNoPrefix    = errors.New("the given option cannot be reversed with a --no- prefix")
	errRead        = errors.New("error encountered when reading a file")
	errBlank       = errors.New("blank argument where content is expected")
)

// Requests to print something and end.
var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
)

// args reads the arguments of the command line.
func (c *client) args(args []string) error {
	flags := true
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		var used bool
		var err error
		switch {
		case !flags || !strings.HasPrefix(arg, "-"):
			err = c.addURL(arg, true)
		case arg == "--":
			flags = false
		case strings.HasPrefix(arg, "--"):
			used, err = c.long(arg[2:], args)
		default:
			used, err = c.letters(arg[1:], args)
		}
		if err != nil {
			return fmt.Errorf("option %s: %w", arg, err)
		}
		if used {
			args = args[1:]
		}
	}
	return nil
}

// long applies a long option and reports whether it took the next argument.
func (c *client) long(name string, rest []string) (bool, error) {
	name, no := strings.CutPrefix(name, "no-")
	o, ok := find(name)
	switch {
	case !ok:
		return false, errUnknown
	case no && o.takes != boolean:
		return false, errNoPrefix
	case o.takes == none || o.takes == boolean:
		return false, c.apply(o, "", !no)
	case len(rest) == 0:
		return false, errNoParameter
	}
	return true, c.apply(o, rest[0], true)
}

// letters applies combined letters; the value of the last one may
// follow it at once.
func (c *client) letters(letters string, rest []string) (bool, error) {
	if letters == "" {
		return false, errUnknown
	}
	for i := range len(letters) {
		o, ok := findShort(letters[i])
		switch {
		case !ok:
			return false, errUnknown
		case o.takes == none || o.takes == boolean:
			if err := c.apply(o, "", true); err != nil {
				return false, err
			}
		case i+1 < len(letters):
			return false, c.apply(o, letters[i+1:], true)
		case len(rest) == 0:
			return false, errNoParameter
		default:
			return true, c.apply(o, rest[0], true)
		}
	}
	return false, nil
}

func (c *client) apply(o option, value string, on bool) error {
	if o.takes == file && len(value) > 1 && value[0] == '-' {
		c.warnf("The filename argument '%s' looks like a flag.", value)
	}
	return o.do(c, value, on)
}

// reportUsage prints why the arguments could not be read, or the requested help,
// and returns the exit code.
func (c *client) reportUsage(err error) int {
	switch {
	case errors.Is(err, errHelp):
		_, _ = io.WriteString(c.out, help)
		return 0
	case errors.Is(err, errVersion):
		_, _ = io.WriteString(c.out, versionText)
		return 0
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return c.report(f)
	}
	c.errorf("%v", err)
	c.tryHelp()
	if errors.Is(err, errRead) {
		return exitRead
	}
	return exitFailedInit
}

const help = `Usage: curl [options...] <url>
 -d, --data <data>           HTTP POST data
 -f, --fail                  Fail fast with no output on HTTP errors
 -h, --help <subject>        Get help for commands
 -o, --output <file>         Write to file instead of stdout
 -O, --remote-name           Write output to file named as remote file
 -i, --show-headers          Show response headers in output
 -s, --silent                Silent mode
 -T, --upload-file <file>    Transfer local FILE to destination
 -u, --user <user:password>  Server user and password
 -A, --user-agent <name>     Send User-Agent <name> to server
 -v, --verbose               Make the operation more talkative
 -V, --version               Show version number and quit

This is not the full help. mullion's documentation lists the options of this
curl (docs/fidelity/images.md).
`

// versionText is the text of Windows' curl, with the protocols and features of this one.
const versionText = "curl " + version + " (Windows) libcurl/" + version + " Schannel zlib/1.3.1 WinIDN\n" +
	"Release-Date: 2025-04-02\nProtocols: http https\nFeatures: AsynchDNS IPv6 Largefile libz SSL threadsafe Unicode\n"

// parseNumber reads digits, below 2³¹.
func parseNumber(s string) (int, error) {
	if strings.HasPrefix(s, "-") {
		if _, err := strconv.Atoi(s); err == nil {
			return 0, errNegative
		}
	}
	n, err := strconv.ParseUint(s, 10, 31)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errTooLarge
	case err != nil:
		return 0, errNumber
	}
	return int(n), nil
}

func parseSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || strings.Trim(s, "0123456789.") != "" {
		return 0, errNumber
	}
	if f > math.MaxInt64/float64(time.Second) {
		return 0, errTooLarge
	}
	return time.Duration(f * float64(time.Second)), nil
}

// read returns the content of a file, or of standard input for "-".
func (c *client) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(c.env.Stdin)
	}
	return os.ReadFile(name)
}

// content returns a value, or with @ the content of a file.
func (c *client) content(value string) ([]byte, error) {
	name, ok := strings.CutPrefix(value, "@")
	if !ok {
		return []byte(value), nil
	}
	data, err := c.read(name)
	if err != nil {
		c.errorf("Failed to open %s", name)
		return nil, errRead
	}
	return data, nil
}
