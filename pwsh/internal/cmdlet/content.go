// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// encodeText encodes by the name of -Encoding; a new file gets its mark.
func encodeText(text, name string, fresh bool, desktop bool) ([]byte, error) {
	mark := func(m string, b []byte) []byte {
		if fresh {
			return append([]byte(m), b...)
		}
		return b
	}
	switch lower(name) {
	case "", "utf8nobom", "default", "oem", "string":
		return []byte(text), nil
	case "utf8":
		if desktop {
			return mark("\ufeff", []byte(text)), nil
		}
		return []byte(text), nil
	case "utf8bom":
		return mark("\ufeff", []byte(text)), nil
	case "ascii":
		return []byte(strings.Map(func(r rune) rune {
			if r > 127 {
				return '?'
			}
			return r
		}, text)), nil
	case "unicode", "utf-16":
		return mark("\xff\xfe", interp.EncodeUTF16(text, false)), nil
	case "bigendianunicode":
		return mark("\xfe\xff", interp.EncodeUTF16(text, true)), nil
	}
	return nil, badArgument("Encoding", "Cannot validate argument on parameter 'Encoding'. The argument \"%s\" does "+
		"not belong to the set \"unknown;string;unicode;bigendianunicode;utf8;utf8BOM;utf8NoBOM;default;oem;ascii\".",
		name)
}

func writeText(c *interp.Invocation, name, text, encoding string, appendTo bool) error {
	if name == "" {
		return badArgument("Path", "Cannot bind argument to parameter 'Path' because it is an empty string.")
	}
	fresh := !appendTo || !c.R.Exists(c.R.Path(name))
	b, err := encodeText(text, encoding, fresh, c.R.Edition() == 0)
	if err != nil {
		return err
	}
	return dotnet.WriteFile(c.R, name, b, appendTo)
}

// contentCmdlets are Get-, Set-, Add- and Clear-Content.
func contentCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Content", Aliases: []string{"cat", "gc", "type"},
			Params: "Path[]@0.< LiteralPath|PSPath[] TotalCount|First|Head:int Tail|Last:int Raw? Wait? " +
				"ReadCount:int Encoding Delimiter AsByteStream? Force? Filter~ Include[]~ Exclude[]~ Stream~",
			Process: func(c *interp.Invocation) error {
				for _, p := range paths(c) {
					if err := getContent(c, p); err != nil {
						if err := c.Error(err); err != nil {
							return err
						}
					}
				}
				return nil
			}},
		writeContent("Set-Content", "sc", false), writeContent("Add-Content", "ac", true),
		{Name: "Clear-Content", Aliases: []string{"clc"}, Params: "Path[]@0. LiteralPath|PSPath[] Force?",
			Process: func(c *interp.Invocation) error {
				for _, p := range paths(c) {
					if !c.R.Exists(c.R.Path(p)) {
						if err := c.Error(c.R.FileError(os.ErrNotExist, c.R.Path(p))); err != nil {
							return err
						}
						continue
					}
					if err := dotnet.WriteFile(c.R, p, nil, false); err != nil {
						return err
					}
				}
				return nil
			}},
	}
}

func getContent(c *interp.Invocation, p string) error {
	if d, rest, ok := providerPath(p); ok && d != "file" {
		v, err := providerGet(c, d, rest)
		if err != nil {
			return err
		}
		return c.WriteAll(v)
	}
	b, err := c.R.ReadFile(p)
	if err != nil {
		if fi, serr := statPath(c.R, p); serr == nil && fi.IsDir() {
			return interp.Failf("System.UnauthorizedAccessException", "GetContentReaderUnauthorizedAccessError",
				"PermissionDenied", c.R.Path(p), "Access to the path '%s' is denied.", c.R.Path(p))
		}
		return err
	}
	if c.Switch("AsByteStream") || strings.EqualFold(c.Str("Encoding", ""), "byte") {
		if c.Switch("Raw") {
			return c.Write(value.NewBytes(b))
		}
		return c.WriteAll(value.NewBytes(b))
	}
	text := interp.DecodeText(b)
	if e := lower(c.Str("Encoding", "")); (e == "unicode" || e == "bigendianunicode") && len(b) > 1 &&
		b[0]&b[1] != 0xfe {
		text = interp.DecodeUTF16(b, e != "unicode")
	}
	if c.Switch("Raw") {
		if text == "" {
			return nil
		}
		return c.Write(text)
	}
	lines := interp.SplitLines(text)
	if d := c.Str("Delimiter", ""); d != "" {
		lines = strings.SplitAfter(text, d)
	}
	if n := c.Int("TotalCount", -1); n >= 0 && n < len(lines) {
		lines = lines[:n]
	}
	if n := c.Int("Tail", -1); n >= 0 && n < len(lines) {
		lines = lines[len(lines)-n:]
	}
	if n := c.Int("ReadCount", 1); n != 1 {
		return writeBatches(c, lines, n)
	}
	for _, l := range lines {
		if err := c.Write(l); err != nil {
			return err
		}
	}
	if c.Switch("Wait") {
		return follow(c, p, int64(len(b)))
	}
	return nil
}

func writeBatches(c *interp.Invocation, lines []string, n int) error {
	if n <= 0 {
		n = max(len(lines), 1)
	}
	for len(lines) > 0 {
		k := min(n, len(lines))
		if err := c.Write(value.NewStrings(lines[:k])); err != nil {
			return err
		}
		lines = lines[k:]
	}
	return nil
}

// followInterval is how often Get-Content -Wait looks: PowerShell's own once a
// second.
const followInterval = time.Second

// follow writes the lines appended to a file, like tail -f.
func follow(c *interp.Invocation, name string, at int64) error {
	var rest string
	for {
		if err := dotnet.Sleep(c.R, followInterval); err != nil {
			return err
		}
		f, err := files(c).OpenFile(c.R.Path(name), os.O_RDONLY, 0)
		if err != nil {
			return c.R.FileError(err, name)
		}
		if fi, err := f.Stat(); err == nil && fi.Size() < at {
			at, rest = 0, "" // it was truncated
		}
		_, err = f.Seek(at, io.SeekStart)
		var b []byte
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(f, value.MaxItems))
		}
		_ = f.Close() // read only
		if err != nil {
			return c.R.FileError(err, name)
		}
		at += int64(len(b))
		rest += string(b)
		for {
			line, tail, ok := strings.Cut(rest, "\n")
			if !ok {
				break
			}
			rest = tail
			if err := c.Write(strings.TrimSuffix(line, "\r")); err != nil {
				return err
			}
		}
	}
}

func writeContent(name, alias string, appendTo bool) *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    name,
		Aliases: []string{alias},
		Params: "Path[]@0. Value:any@1!< LiteralPath|PSPath[] Encoding NoNewline? Force?= AsByteStream? PassThru? " +
			"Filter~ Include[]~ Exclude[]~ Stream~",
		Fidelity: "the default encoding is UTF-8 without a mark, in Windows PowerShell the ANSI code page",
		Begin:    func(c *interp.Invocation) error { c.State = &value.List{}; return nil },
		Process: func(c *interp.Invocation) error {
			l := c.State.(*value.List)
			v := c.Any("Value")
			if items, ok := value.Items(v); ok {
				l.Items = append(l.Items, items...)
			} else {
				l.Items = append(l.Items, v)
			}
			return nil
		},
		End: func(c *interp.Invocation) error {
			items := c.State.(*value.List).Items
			targets := paths(c)
			if len(targets) == 0 {
				return badArgument("Path", "Cannot bind argument to parameter 'Path' because it is null.")
			}
			for _, p := range targets {
				if ok, err := c.ShouldProcess("Path: "+c.R.Path(p), strings.Replace(name, "-", " ", 1)); err != nil ||
					!ok {
					return err
				}
				if d, rest, ok := providerPath(p); ok && d != "file" {
					if err := providerSet(c, d, rest, value.Collapse(items)); err != nil {
						return err
					}
					continue
				}
				if err := writeItems(c, p, items, appendTo); err != nil {
					if err := c.Error(err); err != nil {
						return err
					}
				}
			}
			if c.Switch("PassThru") {
				return c.WriteAll(value.NewArray(items...))
			}
			return nil
		},
	}
}

func writeItems(c *interp.Invocation, p string, items []any, appendTo bool) error {
	if c.Switch("AsByteStream") || strings.EqualFold(c.Str("Encoding", ""), "byte") {
		b, err := value.Bytes(value.NewArray(items...))
		if err != nil {
			return err
		}
		return dotnet.WriteFile(c.R, p, b, appendTo)
	}
	var text strings.Builder
	for _, v := range items {
		text.WriteString(c.R.Text(v))
		if !c.Switch("NoNewline") {
			text.WriteString(c.R.Newline())
		}
	}
	return writeText(c, p, text.String(), c.Str("Encoding", ""), appendTo)
}
