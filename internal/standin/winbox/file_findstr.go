// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

type findstrOptions struct {
	begin, end, literal, regex, ignoreCase, exact, invert, number, names, recurse bool
	patterns                                                                      []string
	files                                                                         []string
}

// findstr searches for texts and for the small regular expressions of Windows:
// . * ^ $ [class] \< \> and \x.
func findstr(_ context.Context, env *Env) int {
	o, err := parseFindstr(env.Args)
	if err != nil {
		env.errorf("FINDSTR: %v\n", err)
		return 2
	}
	re, err := o.compile()
	if err != nil {
		env.errorf("FINDSTR: %v\n", err)
		return 2
	}
	code := 1
	each := func(name string, r io.Reader) {
		done := false
		eachLine(r, func(i int, line string) {
			if re.MatchString(line) == o.invert || done {
				return
			}
			code = 0
			if o.names {
				done = true
				env.printf("%s\n", name)
				return
			}
			prefix := ""
			if name != "" && (len(o.files) > 1 || o.recurse || strings.ContainsAny(o.files[0], "*?")) {
				prefix = name + ":"
			}
			if o.number {
				prefix += fmt.Sprintf("%d:", i)
			}
			env.printf("%s%s\n", prefix, line)
		})
	}
	if len(o.files) == 0 {
		each("", env.Stdin)
		return code
	}
	names := expand(o.files)
	if o.recurse {
		names = findBelow(o.files)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			env.errorf("FINDSTR: Cannot open %s\n", name)
			continue
		}
		each(name, f)
		_ = f.Close() // opened for reading
	}
	return code
}

func parseFindstr(args []string) (findstrOptions, error) {
	o := findstrOptions{}
	given := false
	for _, a := range args {
		if !strings.HasPrefix(a, "/") && !strings.HasPrefix(a, "-") {
			if !given {
				// Blanks separate alternatives.
				o.patterns, given = append(o.patterns, strings.Fields(a)...), true
				continue
			}
			o.files = append(o.files, a)
			continue
		}
		if rest, ok := cutFold(a[1:], "c:"); ok {
			o.patterns, given = append(o.patterns, strings.Trim(rest, `"`)), true
			continue
		}
		if rest, ok := cutFold(a[1:], "g:"); ok {
			data, err := os.ReadFile(rest)
			if err != nil {
				return o, fmt.Errorf("Cannot open %s", rest) // Windows' text
			}
			o.patterns, given = append(o.patterns, strings.Fields(string(data))...), true
			continue
		}
		// Letters may be combined: /inr.
		for _, c := range strings.ToLower(strings.ReplaceAll(a[1:], "/", "")) {
			flag := map[rune]*bool{
				'b': &o.begin, 'e': &o.end, 'l': &o.literal, 'r': &o.regex, 'i': &o.ignoreCase,
				'x': &o.exact, 'v': &o.invert, 'n': &o.number, 'm': &o.names, 's': &o.recurse,
			}[c]
			if flag == nil {
				return o, fmt.Errorf("/%c ignored", c)
			}
			*flag = true
		}
	}
	if !given {
		return o, fmt.Errorf("Bad command line") // Windows' text
	}
	return o, nil
}

func cutFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return "", false
}

// compile combines all patterns into one expression.
func (o findstrOptions) compile() (*regexp.Regexp, error) {
	var alternatives []string
	for _, p := range o.patterns {
		expr := findstrExpr(p)
		if o.literal {
			expr = regexp.QuoteMeta(p)
		}
		if o.begin || o.exact {
			expr = "^" + expr
		}
		if o.end || o.exact {
			expr += "$"
		}
		alternatives = append(alternatives, expr)
	}
	expr := "(?:" + strings.Join(alternatives, ")|(?:") + ")"
	if o.ignoreCase {
		expr = "(?i)" + expr
	}
	return regexp.Compile(expr)
}

// findstrExpr translates findstr's syntax, in which most of RE2's operators are
// ordinary characters.
func findstrExpr(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '.', '*', '^', '$':
			b.WriteByte(c)
		case '\\':
			i++
			switch {
			case i >= len(p):
				b.WriteString(`\\`)
			case p[i] == '<' || p[i] == '>':
				b.WriteString(`\b`)
			default:
				b.WriteString(regexp.QuoteMeta(p[i : i+1]))
			}
		case '[':
			end := strings.IndexByte(p[i+1:], ']')
			if end <= 0 {
				b.WriteString(`\[`)
				continue
			}
			class := p[i+1 : i+1+end]
			b.WriteString("[" + strings.NewReplacer(`\`, `\\`, "[", `\[`, "&", `\&`, "~", `\~`).Replace(class) + "]")
			i += end + 1
		default:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		}
	}
	return b.String()
}

// findBelow lists the files below the directories of patterns whose names match.
func findBelow(patterns []string) []string {
	var out []string
	for _, p := range patterns {
		dir, name := filepath.Split(p)
		dir = cmp.Or(dir, ".")
		_ = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // an unreadable file has no lines
			}
			if ok, _ := filepath.Match(strings.ToLower(name), strings.ToLower(d.Name())); ok && d.Type().IsRegular() {
				out = append(out, file)
			}
			return nil
		})
	}
	return out
}
