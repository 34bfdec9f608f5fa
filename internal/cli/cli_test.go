// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
)

func TestRun(t *testing.T) {
	inner := errors.New("port 6443 is in use")
	for _, tc := range []struct {
		name string
		args []string
		err  error
		code int
		want []string // parts of stderr, or of stdout for success
	}{
		{"help", nil, nil, 0, []string{"Start a cluster:", "probe"}},
		{"success", []string{"probe"}, nil, 0, nil},
		{"plain failure", []string{"probe"}, inner, 1, []string{"mullion: error: port 6443 is in use\n"}},
		{"hint", []string{"probe"}, cli.WithHint(inner, "stop it\nor choose another"), 1,
			[]string{"mullion: hint: stop it\n", "mullion: hint: or choose another\n"}},
		{"environment", []string{"probe"}, cli.Environmentf("run as root", "needs root"), 3,
			[]string{"needs root", "hint: run as root"}},
		{"usage", []string{"probe", "--nope"}, nil, 2, []string{"unknown flag", "see 'mullion probe --help'"}},
		{"unknown command", []string{"prob"}, nil, 2, []string{"unknown command"}},
		{"silent", []string{"probe"}, cli.Silent(cli.Unhealthy), 1, nil},
		{"passed on", []string{"probe"}, cli.ExitStatus(42), 42, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
			code := cli.Run(context.Background(), s, append([]string{"mullion"}, tc.args...), []cli.Command{
				{Group: cli.Start, New: func(cli.Streams) *cobra.Command {
					return &cobra.Command{Use: "probe", Short: "probe", RunE: func(*cobra.Command, []string) error {
						return tc.err
					}}
				}}})
			if code != tc.code {
				t.Errorf("exit code %d, want %d (stderr %q)", code, tc.code, errs.String())
			}
			all := out.String() + errs.String()
			for _, w := range tc.want {
				if !strings.Contains(all, w) {
					t.Errorf("output %q lacks %q", all, w)
				}
			}
			if len(tc.want) == 0 && all != "" {
				t.Errorf("unexpected output %q", all)
			}
		})
	}
}

// TestDefect: a panic is told as one, with what a report needs.
func TestDefect(t *testing.T) {
	var errs bytes.Buffer
	code := cli.Run(context.Background(), cli.Streams{Err: &errs}, []string{"mullion", "probe"}, []cli.Command{
		{Group: cli.Start, New: func(cli.Streams) *cobra.Command {
			return &cobra.Command{Use: "probe", RunE: func(*cobra.Command, []string) error { panic("no such thing") }}
		}}})
	if code != int(cli.Fault) {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"mullion: error: a bug in mullion, not a mistake of yours: no such thing\n",
		"mullion: hint: please report it", "cli_test.go"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not in\n%s", want, errs.String())
		}
	}
}

func TestProgressInAPipe(t *testing.T) {
	var b bytes.Buffer
	p := cli.NewProgress(&b)
	l := p.Start("control plane")
	l.Set("control plane: etcd")
	l.Done("control plane  ready")
	l.Done("twice")
	p.Close()
	if got, want := b.String(), " ✓ control plane  ready\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
