// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
)

func start(t *testing.T, cfg pwsh.Config) *pwsh.Runner {
	t.Helper()
	r, err := pwsh.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestNewFails(t *testing.T) {
	nothing := func(*pwsh.Invocation) error { return nil }
	for name, cfg := range map[string]pwsh.Config{
		"a cmdlet of Config.Cmdlets has no name":             {Cmdlets: []pwsh.Cmdlet{{Process: nothing}}},
		"cmdlet Get-X has neither Begin nor Process nor End": {Cmdlets: []pwsh.Cmdlet{{Name: "Get-X"}}},
		"two cmdlets are named get-x": {
			Cmdlets: []pwsh.Cmdlet{{Name: "Get-X", End: nothing}, {Name: "get-x", End: nothing}}},
		"start PowerShell session: type 0 of Config.Types has no": {Types: []pwsh.Type{{}}},
	} {
		if _, err := pwsh.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}

// TestValues passes Go values into a session and back.
func TestValues(t *testing.T) {
	r := start(t, pwsh.Config{})
	type own struct{ n int }
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, x := range []struct {
		name     string
		in       any
		typeName string
		out      any
	}{
		{"nil", nil, "", nil},
		{"text", "a", "String", "a"},
		{"bool", true, "Boolean", true},
		{"int", 5, "Int32", int32(5)},
		{"large int", 1 << 40, "Int64", int64(1 << 40)},
		{"uint16", uint16(7), "UInt16", uint16(7)},
		{"float", 1.5, "Double", 1.5},
		{"bytes", []byte{1, 2}, "Byte[]", []byte{1, 2}},
		{"texts", []string{"a", "b"}, "String[]", []any{"a", "b"}},
		{"list", []any{1, "a"}, "Object[]", []any{int32(1), "a"}},
		{"map", map[string]any{"k": []any{1}}, "Hashtable", map[string]any{"k": []any{int32(1)}}},
		{"time", at, "DateTime", at},
		{"duration", time.Minute, "TimeSpan", time.Minute},
		{"other", own{3}, "Object", own{3}},
	} {
		if err := r.Set("v", x.in); err != nil {
			t.Fatal(err)
		}
		got, ok := r.Get("v")
		if !ok || !reflect.DeepEqual(got, x.out) {
			t.Errorf("%s: got %#v, %t, want %#v", x.name, got, ok, x.out)
		}
		if x.in == nil {
			continue
		}
		if names, err := r.Eval(t.Context(), "$v.GetType().Name"); err != nil || names[0] != x.typeName {
			t.Errorf("%s is a %v, %v, want %s", x.name, names, err, x.typeName)
		}
	}
	if _, ok := r.Get("nosuch"); ok {
		t.Error("got a variable that does not exist")
	}
	if err := r.Set("true", 1); err == nil {
		t.Error("assigned to $true")
	}
	got, err := r.Eval(t.Context(), `[pscustomobject]@{a=1;b='x','y'}; [char]'c'; [version]'1.2'
[Collections.ArrayList](1,2); [DayOfWeek]::Monday; "$v"; [Text.StringBuilder]'sb'`)
	object := map[string]any{"a": int32(1), "b": []any{"x", "y"}}
	want := []any{object, "c", "1.2", int32(1), int32(2), "Monday", "{3}", "sb"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v\nwant %#v", got, err, want)
	}
}

func TestEvalErrors(t *testing.T) {
	r := start(t, pwsh.Config{})
	var mistake *pwsh.SyntaxError
	const want = "script:1:5: Missing condition in if statement after 'if ('."
	if _, err := r.Eval(t.Context(), "if ("); !errors.As(err, &mistake) || !mistake.Incomplete ||
		mistake.Error() != want {
		t.Errorf("got %v", err)
	}
	var failed *pwsh.ScriptError
	got, err := r.Eval(t.Context(), "'before'; throw 'reason'; 'after'")
	if !errors.As(err, &failed) || len(got) != 1 || failed.Error() != "reason" ||
		failed.Category != "OperationStopped" ||
		failed.Line != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := r.Eval(t.Context(), "exit 3"); err != nil {
		t.Errorf("exit: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Eval(ctx, "while ($true) {}"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	bounded := start(t, pwsh.Config{MaxStatements: 10})
	if _, err := bounded.Eval(t.Context(), "while ($true) {}"); err == nil {
		t.Error("no limit of statements")
	}
}

// TestCmdletErrors checks the two ways in which a cmdlet fails.
func TestCmdletErrors(t *testing.T) {
	r := start(t, pwsh.Config{Cmdlets: []pwsh.Cmdlet{
		{Name: "Stop-All", Process: func(*pwsh.Invocation) error { return fs.ErrPermission }},
		{Name: "Skip-One", Process: func(c *pwsh.Invocation) error { return c.Error(fs.ErrNotExist) }},
	}})
	got, err := r.Eval(t.Context(), `try { Stop-All } catch { 'caught' }
Skip-One -ErrorAction SilentlyContinue; 'goes on'; $Error.Count; Skip-One -ErrorAction Stop`)
	if !errors.Is(err, fs.ErrNotExist) || !reflect.DeepEqual(got, []any{"caught", "goes on", int32(2)}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestParameters binds arguments of every kind.
func TestParameters(t *testing.T) {
	var got []any
	r := start(t, pwsh.Config{
		Handlers: host.Handlers{Now: time.Now},
		Cmdlets: []pwsh.Cmdlet{{
			Name:   "Test-Parameter",
			Params: "Names[]@0 Count|n:int@1 Ratio:float On? Any:any< Numbers:any[]",
			Begin:  func(c *pwsh.Invocation) error { got = nil; return c.Write(c.Handlers().Now != nil) },
			Process: func(c *pwsh.Invocation) error {
				item, piped := c.Input()
				got = append(got, c.Texts("Names"), c.Int("Count", -1), c.Switch("On"), c.Has("On"), item, piped)
				for _, name := range []string{"Ratio", "Any", "Numbers", "On", "Count", "Names"} {
					got = append(got, c.Value(name))
				}
				return c.Context().Err()
			},
		}},
	})
	if _, err := r.Eval(t.Context(), "@{k=1} | Test-Parameter a, b -n 5 -Ratio 1.5 -On -Numbers 1, 2"); err != nil {
		t.Fatal(err)
	}
	m := map[string]any{"k": int32(1)}
	names := []string{"a", "b"}
	want := []any{names, 5, true, true, m, true, 1.5, m, []any{int32(1), int32(2)}, true, 5, names}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

// TestType uses every part of a type.
func TestType(t *testing.T) {
	type box struct{ v any }
	r := start(t, pwsh.Config{Types: []pwsh.Type{
		{
			Name: "Acme.Box",
			New: func(args []any) (any, error) {
				if len(args) != 1 {
					return nil, errors.New("a box holds one thing")
				}
				return &box{args[0]}, nil
			},
			Text: func(self any) string { return "a box" },
			Properties: []pwsh.Property{{
				Name: "Content",
				Get:  func(self any) (any, error) { return self.(*box).v, nil },
				Set:  func(self, v any) error { self.(*box).v = v; return nil },
			}},
			Methods: []pwsh.Method{{
				Name: "Same",
				Call: func(self any, args []any) (any, error) { return self == args[0], nil },
			}},
			StaticProperties: []pwsh.Property{{
				Name: "Material",
				Get:  func(self any) (any, error) { return self == nil, nil },
			}},
			StaticMethods: []pwsh.Method{{
				Name: "Add",
				Call: func(_ any, args []any) (any, error) { return len(args), nil },
			}},
		},
		{Name: "Acme.Sealed"},
	}})
	got, err := r.Eval(t.Context(), `$b = New-Object Acme.Box 'x'; $b.Content
$b.Content = 5; $b.Content; "$b"; $b.Same($b)
[Acme.Box]::Material; [Acme.Box]::Add(1, 2); $b.GetType().FullName
try { [Acme.Box]::new() } catch { $_.Exception.InnerException.Message }
try { [Acme.Sealed]::new() } catch { 'sealed' }`)
	want := []any{"x", int32(5), "a box", true, true, int32(2), "Acme.Box", "a box holds one thing", "sealed"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v, %v\nwant %#v", got, err, want)
	}
}

func TestFilesAndScripts(t *testing.T) {
	var out, errs bytes.Buffer
	h, _ := rowtest.Handlers(t, &out, &errs)
	dir := t.TempDir()
	const script = "param($Name, [switch]$Loud) \"$Name $Loud\"; exit 4"
	if err := os.WriteFile(filepath.Join(dir, "s.ps1"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, pwsh.Config{Handlers: h, Dir: dir})
	res, err := r.RunFile(t.Context(), "s.ps1", "-Name", "x", "-Loud:$true")
	if err != nil || res.Exit != 4 || !res.Exited || out.String() != "x True\n" {
		t.Errorf("%+v, %v, printed %q", res, err, out.String())
	}
	s, err := pwsh.Parse("p.ps1", "'parsed'; Get-Item nosuch", pwsh.Desktop)
	if err != nil {
		t.Fatal(err)
	}
	res, err = r.RunScript(t.Context(), s)
	printed := strings.HasSuffix(out.String(), "parsed\n") && strings.Contains(errs.String(), "nosuch")
	if err != nil || res.OK || res.Failed || !printed {
		t.Errorf("%+v, %v, printed %q %q", res, err, out.String(), errs.String())
	}
	if _, err := start(t, pwsh.Config{Edition: pwsh.Core}).RunScript(t.Context(), s); err == nil {
		t.Error("a script of another edition ran")
	}
	if res, err := r.Run(t.Context(), "if ("); err != nil || !res.Failed {
		t.Errorf("a script that does not parse: %+v, %v", res, err)
	}
}

// TestNothingIsReachable runs commands in a session without handlers: each ends
// with an error.
func TestNothingIsReachable(t *testing.T) {
	content, err := os.ReadFile("testdata/unreachable.ps1")
	if err != nil {
		t.Fatal(err)
	}
	for script := range strings.Lines(string(content)) {
		if strings.HasPrefix(script, "#") {
			continue
		}
		r := start(t, pwsh.Config{})
		if _, err := r.Eval(t.Context(), "$ErrorActionPreference = 'Stop'; "+script); err == nil {
			t.Errorf("%s: no error", script)
		} else if strings.Contains(err.Error(), "internal error") {
			t.Errorf("%s: %v", script, err)
		}
	}
}
