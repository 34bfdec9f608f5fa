// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// Exit codes of icacls.exe are Windows' error codes, winerror.h.
const (
	errorNotFound     = 2
	errorAccessDenied = 5
	errorParameter    = 87
	errorNoneMapped   = 1332
)

// icaclsHelp is the last part of icacls.exe's message about wrong arguments.
const icaclsHelp = "Invalid parameter \"%s\"\n"

// icaclsChange is one change that the arguments request.
type icaclsChange struct {
	verb    string // "grant", "deny", "remove", "inheritance", "setowner", "reset"
	replace bool   // /grant:r
	only    string // "g" or "d" of /remove:g and /remove:d; "e", "d" or "r" of /inheritance
	entries []host.AccessRule
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
	if env.Host.Security == nil {
		env.errorf("icacls: %v\n", errors.ErrUnsupported)
		return 1
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

// entry parses "BUILTIN\Users:(OI)(CI)RX", or only an account.
func (r *icaclsRun) entry(arg string, withRights bool) (host.AccessRule, int) {
	account, rights := arg, ""
	if withRights {
		i := strings.LastIndex(arg, ":")
		if i < 0 {
			r.env.printf(icaclsHelp, arg)
			return host.AccessRule{}, errorParameter
		}
		account, rights = arg[:i], arg[i+1:]
	}
	sid, ok := strings.CutPrefix(account, "*")
	if !ok {
		found, err := r.env.Host.Security.FindAccount(account)
		if err != nil {
			r.env.printf("%s: No mapping between account names and security IDs was done.\n", account)
			r.env.printf("Successfully processed 0 files; Failed processing 1 files\n")
			return host.AccessRule{}, errorNoneMapped
		}
		sid = found.SID
	}
	e := host.AccessRule{}
	if withRights {
		if e, ok = parseRights(rights); !ok {
			r.env.printf(icaclsHelp, arg)
			return e, errorParameter
		}
	}
	e.Account = host.Account{SID: sid, Name: account}
	return e, 0
}

// walk shows or changes a file, and with /T the files below it. It reports whether the
// run goes on.
func (r *icaclsRun) walk(name string) bool {
	dir := false
	s, err := r.env.Host.Security.Security(name)
	if err == nil {
		var info fs.FileInfo
		if info, err = r.env.Host.Files.Stat(name); err == nil {
			dir = info.IsDir()
		}
	}
	if err == nil && len(r.changes) > 0 {
		err = r.env.Host.Security.SetSecurity(name, r.apply(s, dir))
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
	if !r.tree || !dir {
		return true
	}
	entries, err := r.env.Host.Files.ReadDir(name)
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

// apply returns the security after all changes.
func (r *icaclsRun) apply(s host.Security, dir bool) host.Security {
	s.Owner, s.Rules = host.Account{}, slices.Clone(s.Rules) // the owner stays, unless a change sets one
	for _, c := range r.changes {
		c.apply(&s, dir)
	}
	return s
}

// apply makes one change.
func (c icaclsChange) apply(s *host.Security, dir bool) {
	switch c.verb {
	case "setowner":
		s.Owner = c.entries[0].Account
	case "reset":
		s.Protected = false
		s.Rules = slices.DeleteFunc(s.Rules, func(e host.AccessRule) bool { return !e.Inherited })
	case "inheritance":
		s.Protected = c.only != "e"
		switch c.only {
		case "d": // the inherited ones become the file's own
			for i := range s.Rules {
				s.Rules[i].Inherited = false
			}
		case "r":
			s.Rules = slices.DeleteFunc(s.Rules, func(e host.AccessRule) bool { return e.Inherited })
		}
	case "remove":
		for _, gone := range c.entries {
			s.Rules = slices.DeleteFunc(s.Rules, func(e host.AccessRule) bool {
				return !e.Inherited && e.SID == gone.SID && (c.only == "" || (c.only == "d") == e.Deny)
			})
		}
	case "grant", "deny":
		for _, e := range c.entries {
			if !dir {
				e.Inheritance, e.Propagation = 0, 0
			}
			s.Rules = c.add(s.Rules, e)
		}
	}
}

// add puts an entry in its place: own refusals, own grants, inherited entries.
func (c icaclsChange) add(list []host.AccessRule, e host.AccessRule) []host.AccessRule {
	if c.replace {
		list = slices.DeleteFunc(list, func(have host.AccessRule) bool {
			return !have.Inherited && !have.Deny && have.SID == e.SID
		})
	}
	for i, have := range list {
		if !have.Inherited && have.Inheritance == e.Inheritance && have.Propagation == e.Propagation &&
			have.Deny == e.Deny && have.SID == e.SID {
			list[i].Rights |= e.Rights
			return list
		}
	}
	at := slices.IndexFunc(list, func(have host.AccessRule) bool { return have.Inherited || e.Deny && !have.Deny })
	if at < 0 {
		at = len(list)
	}
	return slices.Insert(list, at, e)
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

// simpleRights are printed first, the widest before the others.
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

// spread is a word about the files below a directory that an entry is for.
type spread struct {
	word                     string
	inheritance, propagation int // the bits of host.AccessRule
}

// spreads are in the order in which icacls.exe prints them.
func spreads() []spread { return []spread{{"OI", 2, 0}, {"CI", 1, 0}, {"NP", 0, 1}, {"IO", 0, 2}} }

// parseRights reads "(OI)(CI)RX" and "(RD,X)".
func parseRights(text string) (e host.AccessRule, ok bool) {
	for strings.HasPrefix(text, "(") {
		word, rest, found := strings.Cut(text[1:], ")")
		i := slices.IndexFunc(spreads(), func(s spread) bool { return strings.EqualFold(s.word, word) })
		if !found || i < 0 {
			break
		}
		e.Inheritance |= spreads()[i].inheritance
		e.Propagation |= spreads()[i].propagation
		text = rest
	}
	if text == "" {
		return e, false
	}
	if strings.EqualFold(text, "N") {
		return e, true
	}
	list, inParentheses := strings.CutPrefix(text, "(")
	list, closed := strings.CutSuffix(list, ")")
	if inParentheses != closed {
		return e, false
	}
	for word := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(append(simpleRights(), specificRights()...), func(r right) bool {
			return strings.EqualFold(r.name, word)
		})
		if i < 0 {
			return e, false
		}
		e.Rights |= append(simpleRights(), specificRights()...)[i].mask
	}
	return e, true
}

// showRule returns an entry as icacls.exe prints it.
func showRule(e host.AccessRule) string {
	var flags strings.Builder
	if e.Inherited {
		flags.WriteString("(I)")
	}
	for _, s := range spreads() {
		if e.Inheritance&s.inheritance+e.Propagation&s.propagation != 0 {
			flags.WriteString("(" + s.word + ")")
		}
	}
	if e.Deny {
		flags.WriteString("(DENY)")
	}
	return cmp.Or(e.Name, e.SID) + ":" + flags.String() + "(" + showRights(e.Rights) + ")"
}

// showSecurity lists the entries below each other, beside the file's name.
func showSecurity(name string, s host.Security) string {
	lines := make([]string, 0, len(s.Rules))
	for _, e := range s.Rules {
		lines = append(lines, showRule(e))
	}
	indent := fmt.Sprintf("\n%"+strconv.Itoa(len([]rune(name))+1)+"s", "")
	return strings.TrimRight(name+" "+strings.Join(lines, indent), " ") + "\n"
}
