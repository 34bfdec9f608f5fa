// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// goal bounds one figure of a benchmark, or the ratio of two.
type goal struct {
	benchmark string // without "Benchmark" and the number of processors
	unit      string
	per       string // the unit to divide by, or ""
	most      bool   // the bound is an upper one
	bound     float64
	tolerance float64 // the share of the bound by which a run may miss it without failing
}

// defaultTolerance is the tolerance of a goal that does not name one. Two runs on one idle machine differ
// by about as much.
const defaultTolerance = 0.1

// parseGoals reads the goals of a file.
func parseGoals(text string) ([]goal, error) {
	var goals []goal
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		g := goal{tolerance: defaultTolerance}
		if n := len(f); n > 2 && f[n-2] == "within" {
			percent, err := strconv.ParseFloat(strings.TrimSuffix(f[n-1], "%"), 64)
			if err != nil || percent < 0 || !strings.HasSuffix(f[n-1], "%") {
				return nil, fmt.Errorf("line %d: %q: want within PERCENT%%", i+1, f[n-1])
			}
			g.tolerance, f = percent/100, f[:n-2]
		}
		if len(f) == 6 && f[2] == "/" {
			g.per = f[3]
			f = append(f[:2], f[4:]...)
		}
		if len(f) != 4 || f[2] != "<=" && f[2] != ">=" {
			return nil, fmt.Errorf("line %d: want BENCHMARK UNIT [/ UNIT] <= VALUE [within PERCENT%%], or >=", i+1)
		}
		bound, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		g.benchmark, g.unit, g.most, g.bound = f[0], f[1], f[2] == "<=", bound
		goals = append(goals, g)
	}
	return goals, nil
}

// results holds figures by benchmark and unit.
type results map[string]map[string]float64

// measure reads the output of `go test -bench`. Of a figure that occurs twice, the later
// one counts.
func measure(in io.Reader) (results, error) {
	out := results{}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<20) // a benchmark may print long lines
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i >= 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		figures := out[name]
		if figures == nil {
			figures = map[string]float64{}
			out[name] = figures
		}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				figures[f[i+1]] = v
			}
		}
	}
	return out, s.Err()
}

// compare prints the goals with the measured values. A goal that is missed by more than its tolerance, or was
// not measured, is an error.
func compare(goals []goal, measured results, out io.Writer) error {
	met, missed, unknown := 0, 0, 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n\tGOAL\t\tMEASURED")
	for _, g := range goals {
		name, sign := g.benchmark+" "+g.unit, ">="
		if g.per != "" {
			name += " / " + g.per
		}
		if g.most {
			sign = "<="
		}
		v, ok := g.value(measured)
		switch {
		case !ok:
			unknown++
			fmt.Fprintf(w, "?\t%s\t%s %g\tnot measured\n", name, sign, g.bound)
		case g.met(v, 0):
			met++
			fmt.Fprintf(w, "✓\t%s\t%s %g\t%.4g\n", name, sign, g.bound, v)
		case g.met(v, g.tolerance):
			fmt.Fprintf(w, "~\t%s\t%s %g\t%.4g\tmisses by less than %g %%\n", name, sign, g.bound, v, 100*g.tolerance)
		default:
			missed++
			fmt.Fprintf(w, "✗\t%s\t%s %g\t%.4g\tfalls short\n", name, sign, g.bound, v)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%d of %d goals met, %d not measured\n", met, len(goals), unknown); err != nil {
		return err
	}
	if missed+unknown > 0 {
		return fmt.Errorf("%d goals are missed by more than their tolerance, %d were not measured", missed, unknown)
	}
	return nil
}

// met reports whether a figure keeps the bound, or misses it by no more than a share of it.
func (g goal) met(v, tolerance float64) bool {
	return g.most && v <= g.bound*(1+tolerance) || !g.most && v >= g.bound*(1-tolerance)
}

// value returns the figure of a goal, and false if it was not measured.
func (g goal) value(measured results) (float64, bool) {
	v, ok := measured[g.benchmark][g.unit]
	if g.per == "" || !ok {
		return v, ok
	}
	per, ok := measured[g.benchmark][g.per]
	return v / per, ok && per != 0
}
