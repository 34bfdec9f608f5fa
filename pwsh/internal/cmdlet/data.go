// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"crypto/md5"  //nolint:gosec // a checksum that scripts ask for
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"encoding/csv"
	"fmt"
	"hash"
	"io"
	"os"
	"sort"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func sortStrings(s []string) { sort.Strings(s) }

// csvCmdlets convert between objects and comma-separated text.
//
// Length: one table; splitting hides which names belong together.
func csvCmdlets() []*interp.Cmdlet {
	lines := func(c *interp.Invocation) []string {
		items := gathered(c)
		if len(items) == 0 {
			return nil
		}
		sep := ","
		if d := c.Str("Delimiter", ""); d != "" {
			sep = d
		}
		cols := names(c, items[0])
		quote := func(s string) string {
			if strings.EqualFold(c.Str("UseQuotes", ""), "Never") ||
				strings.EqualFold(c.Str("UseQuotes", ""), "AsNeeded") && !strings.ContainsAny(s, "\"\n\r"+sep) {
				return s
			}
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
		row := func(f func(name string) (text string, present bool)) string {
			parts := make([]string, len(cols))
			for i, n := range cols {
				if text, present := f(n); present { // $null is an empty field without quotes
					parts[i] = quote(text)
				}
			}
			return strings.Join(parts, sep)
		}
		var out []string
		if c.R.Edition() == 0 && !c.Switch("NoTypeInformation") || c.Switch("IncludeTypeInformation") {
			out = append(out, "#TYPE "+value.TypeName(items[0]))
		}
		out = append(out, row(func(n string) (string, bool) { return n, true }))
		for _, v := range items {
			out = append(out, row(func(n string) (string, bool) {
				x, err := c.R.Property(v, n)
				if err != nil || x == nil {
					return "", false
				}
				if _, list := value.Items(x); list {
					return value.TypeName(x), true
				}
				return c.R.Text(x), true
			}))
		}
		return out
	}
	params := "InputObject:any< Delimiter@1 NoTypeInformation|NTI? IncludeTypeInformation? UseCulture?~ UseQuotes"
	return []*interp.Cmdlet{
		{Name: "ConvertTo-Csv", Params: params, Process: gather, End: func(c *interp.Invocation) error {
			return c.WriteAll(value.NewStrings(lines(c)))
		}},
		{Name: "Export-Csv", Aliases: []string{"epcsv"},
			Params: params + " Path@0 LiteralPath Append? Force? NoClobber? Encoding", Process: gather,
			End: func(c *interp.Invocation) error {
				out := lines(c)
				p := c.Str("Path", c.Str("LiteralPath", ""))
				if c.Switch("NoClobber") && c.R.Exists(c.R.Path(p)) {
					return interp.Failf("System.IO.IOException", "NoClobber", "ResourceExists", p,
						"The file '%s' already exists.", c.R.Path(p))
				}
				if c.Switch("Append") && c.R.Exists(c.R.Path(p)) && len(out) > 0 {
					for len(out) > 0 && (strings.HasPrefix(out[0], "#TYPE") || strings.HasPrefix(out[0], `"`)) {
						first := out[0]
						out = out[1:]
						if !strings.HasPrefix(first, "#TYPE") {
							break
						}
					}
				}
				var text strings.Builder
				for _, l := range out {
					text.WriteString(l + c.R.Newline())
				}
				return writeText(c, p, text.String(), c.Str("Encoding", ""), c.Switch("Append"))
			}},
		{Name: "ConvertFrom-Csv", Params: "InputObject:any[]@0< Delimiter@1 Header[] UseCulture?~",
			Process: func(c *interp.Invocation) error {
				if c.State == nil {
					c.State = &value.List{}
				}
				l := c.State.(*value.List)
				l.Items = append(l.Items, c.Items("InputObject")...)
				return nil
			}, End: func(c *interp.Invocation) error {
				var text strings.Builder
				for _, v := range gathered(c) {
					text.WriteString(c.R.Text(v) + "\n")
				}
				return readCSV(c, text.String())
			}},
		{Name: "Import-Csv", Aliases: []string{"ipcsv"},
			Params: "Path[]@0.< Delimiter@1 LiteralPath[] Header[] Encoding UseCulture?~",
			Process: func(c *interp.Invocation) error {
				for _, p := range append(c.Strs("Path"), c.Strs("LiteralPath")...) {
					text, err := c.R.ReadText(p)
					if err != nil {
						return err
					}
					if err := readCSV(c, text); err != nil {
						return err
					}
				}
				return nil
			}},
	}
}

func readCSV(c *interp.Invocation, text string) error {
	if strings.HasPrefix(text, "#TYPE") {
		_, text, _ = strings.Cut(text, "\n")
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes, r.TrimLeadingSpace = -1, true, true
	if d := []rune(c.Str("Delimiter", ",")); len(d) == 1 {
		r.Comma = d[0]
	}
	header := c.Strs("Header")
	for {
		rec, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return interp.Failf("System.FormatException", "InvalidCsv", "InvalidData", nil, "%s", err.Error())
		}
		if header == nil {
			header = rec
			continue
		}
		o := &value.Object{}
		for i, h := range header {
			var v any
			if i < len(rec) {
				v = rec[i]
			}
			if h == "" {
				h = fmt.Sprintf("H%d", i+1)
			}
			o.Set(h, v)
		}
		if err := c.Write(o); err != nil {
			return err
		}
	}
}

// hashCmdlets is Get-FileHash.
func hashCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Get-FileHash", Params: "Path[]@0.< Algorithm LiteralPath|PSPath[] InputStream:any~",
		Process: func(c *interp.Invocation) error {
			algorithms := map[string]func() hash.Hash{"MD5": md5.New, "SHA1": sha1.New, "SHA256": sha256.New,
				"SHA384": sha512.New384, "SHA512": sha512.New}
			name := strings.ToUpper(c.Str("Algorithm", "SHA256"))
			newHash, ok := algorithms[name]
			if !ok {
				return badArgument("Algorithm", "Cannot validate argument on parameter 'Algorithm'. The argument "+
					"\"%s\" does not belong to the set \"SHA1,SHA256,SHA384,SHA512,MD5\".", name)
			}
			for _, p := range paths(c) {
				full := c.R.Path(p)
				f, err := files(c).OpenFile(full, os.O_RDONLY, 0)
				if err != nil {
					if err := c.Error(c.R.FileError(err, full)); err != nil {
						return err
					}
					continue
				}
				h := newHash()
				_, err = io.Copy(h, f)
				_ = f.Close() // read only
				if err != nil {
					return c.R.FileError(err, full)
				}
				if err := c.Write(show(value.NewObject("Microsoft.Powershell.Utility.FileHash", "Algorithm", name,
					"Hash", fmt.Sprintf("%X", h.Sum(nil)), "Path", full), "Algorithm", "Hash", "Path")); err != nil {
					return err
				}
			}
			return nil
		}}}
}

// randomCmdlets are Get-Random and New-Guid.
func randomCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Random", Params: "Maximum:any@0 Minimum:any InputObject:any[]< Count:int SetSeed:any Shuffle?",
			Begin: func(c *interp.Invocation) error {
				c.State = &value.List{}
				if v, ok := c.Get("SetSeed"); ok {
					n, err := value.ToInt(v)
					if err != nil {
						return err
					}
					c.R.Seed(int64(n))
				}
				return nil
			}, Process: func(c *interp.Invocation) error {
				l := c.State.(*value.List)
				l.Items = append(l.Items, c.Items("InputObject")...)
				return nil
			}, End: func(c *interp.Invocation) error {
				rnd := c.R.Rand()
				if l := c.State.(*value.List); len(l.Items) > 0 {
					items := append([]any{}, l.Items...)
					rnd.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
					n := min(c.Int("Count", 1), len(items))
					if c.Switch("Shuffle") {
						n = len(items)
					}
					return c.WriteAll(value.NewArray(items[:max(n, 0)]...))
				}
				lo, hi := any(int32(0)), any(int32(1<<31-1))
				if v, ok := c.Get("Maximum"); ok {
					hi = v
				}
				if v, ok := c.Get("Minimum"); ok {
					lo = v
				}
				for range max(c.Int("Count", 1), 0) {
					v, err := randomBetween(c, lo, hi)
					if err != nil {
						return err
					}
					if err := c.Write(v); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "New-Guid", Process: func(c *interp.Invocation) error { return c.Write(dotnet.NewGUID(c.R)) }},
	}
}

func randomBetween(c *interp.Invocation, lo, hi any) (any, error) {
	nlo, err := value.Number(lo)
	if err != nil {
		return nil, err
	}
	nhi, err := value.Number(hi)
	if err != nil {
		return nil, err
	}
	_, f1 := nlo.(float64)
	_, f2 := nhi.(float64)
	flo, err := value.Float(nlo)
	if err != nil {
		return nil, err
	}
	fhi, err := value.Float(nhi)
	if err != nil {
		return nil, err
	}
	if fhi <= flo {
		return nil, badArgument("Minimum", "The Minimum value (%s) cannot be greater than or equal to the Maximum "+
			"value (%s).", value.String(lo), value.String(hi))
	}
	if f1 || f2 {
		return flo + c.R.Rand().Float64()*(fhi-flo), nil
	}
	a, err := value.ToInt(nlo)
	if err != nil {
		return nil, err
	}
	b, err := value.ToInt(nhi)
	if err != nil {
		return nil, err
	}
	return value.Int(int64(a)+c.R.Rand().Int64N(int64(b)-int64(a)), numberType(nlo, nhi))
}

func numberType(a, b any) string {
	_, la := a.(int64)
	_, lb := b.(int64)
	if la || lb {
		return "System.Int64"
	}
	return "System.Int32"
}
