// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Rules for the output:
//   - Data goes to Streams.Out, everything else to Streams.Err.
//   - On a terminal, unfinished lines are redrawn in place, with the elapsed
//     time; in a pipe, each line is printed once, when it is final.
//   - A finished line begins with a tick or a cross, a running one with a
//     spinner. There are no colours: the marks carry the meaning.

// Progress shows a list of lines, each of which becomes final at some time. It
// is safe for concurrent use.
type Progress struct {
	w     io.Writer
	tty   *os.File // nil if w is not a terminal
	began time.Time

	mu    sync.Mutex
	lines []*Line // guarded by mu
	drawn int     // guarded by mu; rows of the terminal that may be redrawn
	quit  chan struct{}
	ended sync.WaitGroup
}

// Line is one row of a Progress.
type Line struct {
	p     *Progress
	began time.Time
	text  string
	mark  string
	final bool
}

// NewProgress starts drawing on w. Close ends it.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w, began: time.Now(), quit: make(chan struct{})}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.tty = f
		p.ended.Go(p.spin)
	}
	return p
}

// Start adds a line.
func (p *Progress) Start(format string, args ...any) *Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &Line{p: p, began: time.Now(), text: fmt.Sprintf(format, args...)}
	p.lines = append(p.lines, l)
	p.draw()
	return l
}

// Set changes the text of a running line.
func (l *Line) Set(format string, args ...any) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.text = fmt.Sprintf(format, args...)
	l.p.draw()
}

// Done makes the line final, with a tick.
func (l *Line) Done(format string, args ...any) { l.finish("✓", fmt.Sprintf(format, args...)) }

// Fail makes the line final with a cross.
func (l *Line) Fail(format string, args ...any) { l.finish("✗", fmt.Sprintf(format, args...)) }

// elapsed returns the time since the line was started, rounded for people.
func (l *Line) Elapsed() string { return elapsed(time.Since(l.began)) }

func (l *Line) finish(mark, text string) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.final {
		return
	}
	l.mark, l.text, l.final = mark, text, true
	if l.p.tty == nil {
		fmt.Fprintf(l.p.w, " %s %s\n", mark, text)
		return
	}
	l.p.draw()
}

// Close draws the lines for the last time.
func (p *Progress) Close() {
	if p.tty != nil {
		close(p.quit)
		p.ended.Wait()
	}
}

func (p *Progress) spin() {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		case <-p.quit:
			return
		}
	}
}

// draw redraws all lines in place. Once all are final they are not redrawn: the command may print something below.
// Preconditions: p.mu is held.
func (p *Progress) draw() {
	if p.tty == nil || len(p.lines) == 0 {
		return
	}
	columns, _, err := term.GetSize(int(p.tty.Fd()))
	if err != nil {
		columns = 0
	}
	var out strings.Builder // written at once, to prevent flicker
	if p.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", p.drawn) // cursor up, erase to the end
	}
	p.drawn = 0
	spinner := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	for _, l := range p.lines {
		mark, elapsed := l.mark, ""
		if !l.final {
			mark = string(spinner[int(time.Since(p.began)/(100*time.Millisecond))%len(spinner)])
			elapsed = "  " + l.Elapsed()
		}
		text := " " + mark + " " + l.text + elapsed
		fmt.Fprintln(&out, text)
		p.drawn += rows(text, columns)
	}
	_, _ = io.WriteString(p.w, out.String()) // errors don't matter: the terminal is gone
	if !slices.ContainsFunc(p.lines, func(l *Line) bool { return !l.final }) {
		p.lines, p.drawn = nil, 0
	}
}

// rows returns the number of rows that a line takes on a terminal with so many columns; 0 columns are unknown.
func rows(line string, columns int) int {
	if columns <= 0 {
		return 1
	}
	return max(1, (utf8.RuneCountInString(line)+columns-1)/columns)
}

// elapsed formats a duration for people: 3.4s, 1m12s.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
