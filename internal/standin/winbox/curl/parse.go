// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// What is wrong with an option: src/tool_helpers.c, param2text.
var (
	errUnknown     = errors.New("is unknown")
	errNoParameter = errors.New("requires parameter")
	errBadUse      = errors.New("is badly used here")
	errNumber      = errors.New("expected a proper numerical parameter")
	errNegative    = errors.New("expected a positive numerical parameter")
	errTooLarge    = errors.New("too large number")
	errNotBuilt    = errors.New("the installed libcurl version does not support this")
	errNoProtocol  = errors.New("a specified protocol is unsupported by libcurl")
	errNoPrefix    = errors.New("the given option cannot be reversed with a --no- prefix")
	errCombined    = errors.New("--continue-at and --remote-header-name cannot be combined")
	errRead        = errors.New("error encountered when reading a file")
	errExpand      = errors.New("variable expansion failure")
	errBlank       = errors.New("blank argument where content is expected")
	errVariable    = errors.New("syntax error in --variable argument")
	errGarbage     = errors.New("had unsupported trailing garbage")
)

// Requests to print something and end.
var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
	errManual  = errors.New("manual")
)

// parser reads the command line and files of options.
type parser struct {
	*global
	op     *operation // that options apply to
	levels int        // of files that name files

	options []option // sorted by name
}

// find returns the option of a long name. curl 8 takes no abbreviations.
func (p *parser) find(long string) (option, bool) {
	i, ok := slices.BinarySearchFunc(p.options, long, func(o option, name string) int {
		return strings.Compare(o.long, name)
	})
	if !ok {
		return option{}, false
	}
	return p.options[i], true
}

func (p *parser) findShort(c byte) (option, bool) {
	i := slices.IndexFunc(p.options, func(o option) bool { return o.short == c && c != 0 })
	if i < 0 {
		return option{}, false
	}
	return p.options[i], true
}

// maxConfigLevels is how deep files of options may name others (CONFIG_MAX_LEVELS).
const maxConfigLevels = 5

// next begins another operation.
func (p *parser) next() {
	p.op = newOperation()
	p.operations = append(p.operations, p.op)
}

// badOption is an error that names the argument it is about.
type badOption struct {
	arg string
	err error
}

func (b *badOption) Error() string { return b.err.Error() }
func (b *badOption) Unwrap() error { return b.err }

// args reads the arguments of the command line.
func (p *parser) args(args []string) error {
	flags := true
	for i := 0; i < len(args); i++ {
		a := args[i]
		var err error
		switch {
		case !flags || !strings.HasPrefix(a, "-"):
			err = p.url(a, true)
		case a == "--":
			flags = false
		default:
			var next *string
			if i+1 < len(args) {
				next = &args[i+1]
			}
			var used bool
			used, err = p.option(a, next)
			if used {
				i++
			}
		}
		if err != nil {
			return &badOption{a, err}
		}
	}
	if p.op.remoteHeaderName && p.op.resumeHere {
		return errCombined
	}
	return nil
}

// option applies one argument that begins with a dash, or a word of a file
// of options, and reports whether it took the next argument.
func (p *parser) option(arg string, next *string) (bool, error) {
	if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") {
		return p.short(arg[1:], next)
	}
	name := strings.TrimPrefix(arg, "--")
	name, no := strings.CutPrefix(name, "no-")
	expand := false
	if !no {
		name, expand = strings.CutPrefix(name, "expand-")
	}
	o, ok := p.find(name)
	switch {
	case !ok:
		return false, errUnknown
	case no && o.takes != boolean:
		return false, errNoPrefix
	case o.takes == none || o.takes == boolean:
		if expand {
			return false, errExpand
		}
		return false, p.apply(o, "", !no)
	case o.long == "help":
		topic := ""
		if next != nil {
			topic = *next
		}
		return false, p.apply(o, topic, true)
	case next == nil:
		return false, errNoParameter
	}
	value := *next
	if expand {
		var err error
		if value, err = p.expand(value); err != nil {
			return false, err
		}
	}
	return true, p.apply(o, value, true)
}

// short applies letters that stand together; the value of the last may follow
// it at once.
func (p *parser) short(letters string, next *string) (bool, error) {
	if letters == "" {
		return false, errUnknown
	}
	for i := range len(letters) {
		o, ok := p.findShort(letters[i])
		switch {
		case !ok:
			return false, errUnknown
		case o.takes == none || o.takes == boolean:
			if err := p.apply(o, "", true); err != nil {
				return false, err
			}
			continue
		case i+1 < len(letters):
			return false, p.apply(o, letters[i+1:], true)
		case o.long == "help":
			return false, p.apply(o, "", true)
		case next == nil:
			return false, errNoParameter
		}
		return true, p.apply(o, *next, true)
	}
	return false, nil
}

func (p *parser) apply(o option, value string, on bool) error {
	if o.do == nil {
		return errNotBuilt
	}
	if o.takes == file && len(value) > 1 && value[0] == '-' {
		p.warnf("The filename argument '%s' looks like a flag.", value)
	}
	return o.do(p, value, on)
}

// report prints why the arguments could not be read, or what they asked for,
// and returns the exit code.
func (p *parser) report(err error) int {
	switch {
	case errors.Is(err, errHelp), errors.Is(err, errManual):
		return 0
	case errors.Is(err, errVersion):
		p.printVersion()
		return 0
	}
	if f, ok := errors.AsType[*failure](err); ok {
		p.errorf("(%d) %s", f.code, f.text)
		return f.code
	}
	if b, ok := errors.AsType[*badOption](err); ok {
		p.errorf("option %s: %v", b.arg, b.err)
	} else {
		p.errorf("%v", err)
	}
	p.tryHelp()
	switch {
	case errors.Is(err, errNoProtocol):
		return exitUnsupported
	case errors.Is(err, errRead):
		return exitRead
	}
	return exitFailedInit
}

// defaultConfig reads the user's file of options: src/tool_findfile.c.
func (p *parser) defaultConfig() {
	for _, v := range []string{"CURL_HOME", "XDG_CONFIG_HOME", "HOME", "USERPROFILE", "APPDATA"} {
		dir := p.env.Getenv(v)
		if dir == "" {
			continue
		}
		for _, name := range []string{".curlrc", "_curlrc"} {
			if f := filepath.Join(dir, name); fileExists(f) {
				_ = p.configFile(f) // curl goes on after the message
				return
			}
		}
	}
}

// config is --config.
func (p *parser) config(name string, _ bool) error { return p.configFile(name) }

// configFile reads a file of options: curl.se/docs/manpage.html#-K.
func (p *parser) configFile(name string) error {
	if p.levels++; p.levels > maxConfigLevels {
		p.errorf("Max config file recursion level reached (%d)", maxConfigLevels)
		return errBadUse
	}
	defer func() { p.levels-- }()
	data, err := p.read(name)
	if err != nil {
		return errRead
	}
	if name == "-" {
		name = "<stdin>"
	}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		option, param := p.configLine(line, fmt.Sprintf("%s:%d", name, i+1))
		used, err := p.option(option, param)
		if err == nil && param != nil && *param != "" && !used {
			err = errGarbage
		}
		switch {
		case errors.Is(err, errHelp), errors.Is(err, errVersion), errors.Is(err, errManual):
			return err
		case err != nil:
			p.errorf("%s:%d: '%s' %v", name, i+1, option, err)
			return err
		}
	}
	return nil
}

// configLine divides a line into the option and its parameter. Colons and equal
// signs separate them only if the option has no dashes.
func (p *parser) configLine(line, where string) (option string, param *string) {
	separators := " \t=:"
	if line[0] == '-' {
		separators = " \t"
	}
	i := strings.IndexAny(line, separators)
	if i < 0 {
		return line, nil
	}
	option, rest := line[:i], strings.TrimLeft(line[i:], separators)
	if value, ok := strings.CutPrefix(rest, `"`); ok {
		value = unquote(value)
		return option, &value
	}
	value, more, _ := strings.Cut(rest, " ")
	if more = strings.TrimSpace(more); more != "" && more[0] != '#' {
		p.warnf("%s: warning: '%s' uses unquoted whitespace", where, option)
		p.warnf("This may cause side-effects. Consider using double quotes?")
	}
	if value == "" {
		return option, nil
	}
	return option, &value
}

// unquote reads up to the closing quote.
func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s) && s[i] != '"'; i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if j := strings.IndexByte("tnrv", s[i]); j >= 0 {
			b.WriteByte("\t\n\r\v"[j])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
