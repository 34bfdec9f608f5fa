// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Exit codes of icacls.exe are Windows' error codes, winerror.h.
const (
	errorNotFound     = 2
	errorAccessDenied = 5
	errorParameter    = 87
	errorNoneMapped   = 1332
)

// icaclsHelp is how icacls.exe ends its answer to wrong arguments.
const icaclsHelp = "Invalid parameter \"%s\"\n"

// icaclsChange is one change that the arguments ask for.
type icaclsChange struct {
	verb    string // "grant", "deny", "remove", "inheritance", "setowner", "reset"
	replace bool   // /grant:r
	only    string // "g" or "d" of /remove:g and /remove:d; "e", "d" or "r" of /inheritance
	entries []Entry
}

type icaclsRun struct {
	env      *Env
	changes  []icaclsChange
	tree     bool // /T
	goOn     bool // /C
	quiet    bool // /Q
	done     int
	failed   int
	exitCode int
}

// icacls shows and changes the entries of files: icacls NAME [/grant[:r] SID:PERM...]
// [/deny SID:PERM...] [/remove[:g|:d] SID...] [/inheritance:e|d|r] [/setowner USER]
// [/reset] [/T] [/C] [/L] [/Q]. Source: learn.microsoft.com, icacls.
func icacls(_ context.Context, env *Env) int {
	if len(env.Args) == 0 {
		env.printf("%s", "\nICACLS name [/grant[:r] Sid:perm[...]] [/deny Sid:perm [...]] [/remove[:g|:d]] Sid[...]]\n"+
			"       [/inheritance:e|d|r] [/setowner user] [/reset] [/T] [/C] [/L] [/Q]\n")
		return errorParameter
	}
	run := &icaclsRun{env: env}
	if code := run.parse(env.Args[1:]); code != 0 {
		return code
	}
	names := []string{env.Args[0]}
	if strings.ContainsAny(env.Args[0], "*?") {
		found, err := filepath.Glob(env.Args[0])
		if err == nil && len(found) > 0 {
			names = found
		}
	}
	for _, name := range names {
		if !run.walk(name) {
			break
		}
	}
	if !run.quiet || run.failed > 0 {
		env.printf("Successfully processed %d files; Failed processing %d files\n", run.done, run.failed)
	}
	return run.exitCode
}

func (r *icaclsRun) parse(args []string) int {
	for len(args) > 0 {
		name, option, _ := strings.Cut(strings.ToLower(args[0]), ":")
		given := args[0]
		args = args[1:]
		switch name {
		case "/t":
			r.tree = true
		case "/c":
			r.goOn = true
		case "/q":
			r.quiet = true
		case "/l":
		case "/reset":
			r.changes = append(r.changes, icaclsChange{verb: "reset"})
		case "/inheritance":
			if !slices.Contains([]string{"e", "d", "r"}, option) {
				r.env.printf(icaclsHelp, given)
				return errorParameter
			}
			r.changes = append(r.changes, icaclsChange{verb: "inheritance", only: option})
		case "/grant", "/deny", "/remove", "/setowner":
			change := icaclsChange{verb: name[1:], only: option, replace: name == "/grant" && option == "r"}
			for len(args) > 0 && !strings.HasPrefix(args[0], "/") {
				e, code := r.entry(args[0], name == "/grant" || name == "/deny")
				if code != 0 {
					return code
				}
				e.Deny = name == "/deny"
				change.entries = append(change.entries, e)
				args = args[1:]
			}
			if len(change.entries) == 0 {
				r.env.printf(icaclsHelp, given)
				return errorParameter
			}
			r.changes = append(r.changes, change)
		default:
			r.env.printf(icaclsHelp, given)
			return errorParameter
		}
	}
	return 0
}

// entry reads "BUILTIN\Users:(OI)(CI)RX", or an account alone.
func (r *icaclsRun) entry(arg string, withRights bool) (Entry, int) {
	account, rights := arg, ""
	if withRights {
		i := strings.LastIndex(arg, ":")
		if i < 0 {
			r.env.printf(icaclsHelp, arg)
			return Entry{}, errorParameter
		}
		account, rights = arg[:i], arg[i+1:]
	}
	sid, ok := strings.CutPrefix(account, "*")
	if !ok {
		var err error
		if sid, err = r.env.System.LookupSID(account); err != nil {
			r.env.printf("%s: No mapping between account names and security IDs was done.\n", account)
			r.env.printf("Successfully processed 0 files; Failed processing 1 files\n")
			return Entry{}, errorNoneMapped
		}
	}
	e := Entry{SID: sid, Name: account}
	if withRights {
		if e.Flags, e.Mask, ok = parseRights(rights); !ok {
			r.env.printf(icaclsHelp, arg)
			return Entry{}, errorParameter
		}
	}
	return e, 0
}

// walk shows or changes a file, and with /T what lies below. It reports whether the
// run goes on.
func (r *icaclsRun) walk(name string) bool {
	s, err := r.env.System.Security(name)
	if err == nil && len(r.changes) > 0 {
		err = r.apply(name, s)
	}
	switch {
	case err != nil:
		r.failed++
		text := ""
		r.exitCode, text = icaclsError(err)
		r.env.errorf("%s: %s\n", name, text)
		if !r.goOn {
			return false
		}
	case len(r.changes) == 0:
		r.done++
		r.env.printf("%s\n", showSecurity(name, s))
	default:
		r.done++
		if !r.quiet {
			r.env.printf("processed file: %s\n", name)
		}
	}
	if !r.tree || !s.Dir {
		return true
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return r.goOn
	}
	for _, e := range entries {
		if !r.walk(strings.TrimRight(name, `\/`) + string(filepath.Separator) + e.Name()) {
			return false
		}
	}
	return true
}

func icaclsError(err error) (code int, text string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errorNotFound, "The system cannot find the file specified."
	case errors.Is(err, fs.ErrPermission):
		return errorAccessDenied, "Access is denied."
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return int(errno), errno.Error()
	}
	return 1, err.Error()
}

func (r *icaclsRun) apply(name string, s Security) error {
	for _, c := range r.changes {
		if c.verb == "setowner" {
			if err := r.env.System.SetOwner(name, c.entries[0].SID); err != nil {
				return err
			}
			continue
		}
		s = c.apply(s)
	}
	if !slices.ContainsFunc(r.changes, func(c icaclsChange) bool { return c.verb != "setowner" }) {
		return nil
	}
	return r.env.System.SetSecurity(name, s)
}

// apply returns the security after a change.
func (c icaclsChange) apply(s Security) Security {
	own := func(e Entry) bool { return e.Flags&inherited == 0 }
	switch c.verb {
	case "reset":
		s.Protected = false
		s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), own)
	case "inheritance":
		s.Protected = c.only != "e"
		switch c.only {
		case "d": // the inherited ones become the file's own
			s.Entries = slices.Clone(s.Entries)
			for i := range s.Entries {
				s.Entries[i].Flags &^= inherited
			}
		case "r":
			s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return !own(e) })
		}
	case "remove":
		for _, gone := range c.entries {
			s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool {
				return own(e) && e.SID == gone.SID && (c.only == "" || (c.only == "d") == e.Deny)
			})
		}
	case "grant", "deny":
		for _, e := range c.entries {
			if !s.Dir {
				e.Flags = 0
			}
			s.Entries = c.add(s.Entries, e)
		}
	}
	return s
}

// add puts an entry in its place: own refusals, own grants, inherited entries.
func (c icaclsChange) add(list []Entry, e Entry) []Entry {
	if c.replace {
		list = slices.DeleteFunc(slices.Clone(list), func(have Entry) bool {
			return have.Flags&inherited == 0 && !have.Deny && have.SID == e.SID
		})
	}
	for i, have := range list {
		if have.Flags == e.Flags && have.Deny == e.Deny && have.SID == e.SID {
			list = slices.Clone(list)
			list[i].Mask |= e.Mask
			return list
		}
	}
	at := slices.IndexFunc(list, func(have Entry) bool {
		return have.Flags&inherited != 0 || (e.Deny && !have.Deny)
	})
	if at < 0 {
		at = len(list)
	}
	return slices.Insert(slices.Clone(list), at, e)
}

// Masks of the simple rights.
const (
	rightsFull    = 0x1f01ff
	rightsModify  = 0x1301bf
	rightsExecute = 0x1200a9
	rightsRead    = 0x120089
	rightsWrite   = 0x100116
)

type right struct {
	name string
	mask uint32
}

// simpleRights come first in what is printed, the widest before the others.
func simpleRights() []right {
	return []right{
		{"F", rightsFull}, {"M", rightsModify}, {"RX", rightsExecute}, {"R", rightsRead}, {"W", rightsWrite},
		{"D", 0x110000},
	}
}

// specificRights are in the order in which icacls.exe prints them.
func specificRights() []right {
	return []right{
		{"DE", 0x10000}, {"Rc", 0x20000}, {"WDAC", 0x40000}, {"WO", 0x80000}, {"S", 0x100000},
		{"AS", 0x1000000}, {"MA", 0x2000000}, {"GR", 0x80000000}, {"GW", 0x40000000}, {"GE", 0x20000000},
		{"GA", 0x10000000}, {"RD", 0x1}, {"WD", 0x2}, {"AD", 0x4}, {"REA", 0x8}, {"WEA", 0x10}, {"X", 0x20},
		{"DC", 0x40}, {"RA", 0x80}, {"WA", 0x100},
	}
}

// showRights returns the rights without parentheses.
func showRights(mask uint32) string {
	if mask == 0 {
		return "N"
	}
	if mask == 0x10000000 {
		return "F" // as icacls.exe shows CREATOR OWNER's
	}
	var out []string
	whole := mask
	for _, r := range simpleRights() {
		if whole&r.mask == r.mask && mask&r.mask != 0 {
			out = append(out, r.name)
			mask &^= r.mask
		}
	}
	for _, r := range specificRights() {
		if mask&r.mask != 0 {
			out = append(out, r.name)
		}
	}
	return strings.Join(out, ",")
}

// parseRights reads "(OI)(CI)RX" and "(RD,X)".
func parseRights(text string) (flags uint8, mask uint32, ok bool) {
	known := map[string]uint8{"OI": objectInherit, "CI": containerInherit, "IO": inheritOnly, "NP": noPropagate}
	for strings.HasPrefix(text, "(") {
		word, rest, found := strings.Cut(text[1:], ")")
		flag, is := known[strings.ToUpper(word)]
		if !found || !is {
			break
		}
		flags |= flag
		text = rest
	}
	if text == "" {
		return 0, 0, false
	}
	if strings.EqualFold(text, "N") {
		return flags, 0, true
	}
	list, inParentheses := strings.CutPrefix(text, "(")
	list, closed := strings.CutSuffix(list, ")")
	if inParentheses != closed {
		return 0, 0, false
	}
	for word := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(append(simpleRights(), specificRights()...), func(r right) bool {
			return strings.EqualFold(r.name, word)
		})
		if i < 0 {
			return 0, 0, false
		}
		mask |= append(simpleRights(), specificRights()...)[i].mask
	}
	return flags, mask, true
}

// show returns an entry as icacls.exe prints it.
func (e Entry) show() string {
	name := e.Name
	if name == "" {
		name = e.SID
	}
	var b strings.Builder
	b.WriteString(name + ":")
	for _, f := range []struct {
		bit  uint8
		text string
	}{
		{inherited, "(I)"}, {objectInherit, "(OI)"}, {containerInherit, "(CI)"},
		{noPropagate, "(NP)"}, {inheritOnly, "(IO)"},
	} {
		if e.Flags&f.bit != 0 {
			b.WriteString(f.text)
		}
	}
	if e.Deny {
		b.WriteString("(DENY)")
	}
	return b.String() + "(" + showRights(e.Mask) + ")"
}

// showSecurity lists the entries below each other, beside the file's name.
func showSecurity(name string, s Security) string {
	lines := make([]string, 0, len(s.Entries))
	for _, e := range s.Entries {
		lines = append(lines, e.show())
	}
	if len(lines) == 0 {
		return name + "\n"
	}
	indent := fmt.Sprintf("\n%"+strconv.Itoa(len([]rune(name))+1)+"s", "")
	return name + " " + strings.Join(lines, indent) + "\n"
}
