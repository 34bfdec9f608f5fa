// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// now returns the handlers' clock.
func now(r *interp.Runner) time.Time {
	if f := r.Handlers().Now; f != nil {
		return f()
	}
	return time.Now()
}

// ticks rounds down to .NET's 100 ns.
func ticks(t time.Time) time.Time { return t.Truncate(100) }

// timeClasses are DateTime, TimeSpan and Stopwatch.
func timeClasses() []*interp.Class {
	return []*interp.Class{dateClass(), offsetClass(), spanClass(), stopwatchClass(),
		enum("System.DayOfWeek", "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
		enum("System.DateTimeKind", "Unspecified", "Utc", "Local"),
	}
}

func adder(name string, unit time.Duration) interp.Method {
	return method(name, func(c *interp.Call, d value.DateTime) (any, error) {
		f, err := value.Float(c.Arg(0))
		return value.DateTime{Time: d.Add(time.Duration(f * float64(unit)))}, err
	})
}

// Length: one table; splitting hides which names belong together.
func dateClass() *interp.Class {
	str := func(name, format string) interp.Method {
		return method(name, func(_ *interp.Call, d value.DateTime) (any, error) {
			return value.FormatDate(d.Time, format), nil
		})
	}
	parse := func(c *interp.Call) (any, error) {
		d, err := value.ToDate(c.Str(0))
		if err != nil {
			return nil, interp.Failf("System.FormatException", "FormatException", "NotSpecified", nil,
				"String was not recognized as a valid DateTime.")
		}
		return d, nil
	}
	return &interp.Class{Name: "System.DateTime", New: func(c *interp.Call) (any, error) {
		n, err := ints(c, 0)
		if err != nil {
			return nil, err
		}
		if len(n) == 0 {
			n = []int{1, 1, 1}
		}
		if len(n) == 1 {
			return value.FromTicks(int64(n[0])), nil
		}
		for len(n) < 7 {
			n = append(n, 0)
		}
		t := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], n[6]*int(time.Millisecond), time.UTC)
		if t.Year() != n[0] || int(t.Month()) != n[1] || t.Day() != n[2] || t.Hour() != n[3] || t.Minute() != n[4] {
			return nil, interp.Failf("System.ArgumentOutOfRangeException", "ArgumentOutOfRangeException",
				"InvalidArgument", nil, "Year, Month, and Day parameters describe an un-representable DateTime.")
		}
		return value.Unspecified(t), nil
	}, Statics: []interp.Property{
		computed("Now", func(c *interp.Call) (any, error) {
			return value.DateTime{Time: ticks(now(c.R).Local())}, nil
		}),
		computed("UtcNow", func(c *interp.Call) (any, error) {
			return value.DateTime{Time: ticks(now(c.R).UTC())}, nil
		}),
		computed("Today", func(c *interp.Call) (any, error) { return midnight(now(c.R).Local()), nil }),
		constant("MinValue", value.FromTicks(0)), constant("MaxValue", value.FromTicks(3155378975999999999)),
		constant("UnixEpoch", value.DateTime{Time: time.Unix(0, 0).UTC()}),
	}, StaticMethods: []interp.Method{
		static("Parse", parse), static("ParseExact", func(c *interp.Call) (any, error) {
			return parseExact(c.Str(0), c.Str(1))
		}),
		static("DaysInMonth", func(c *interp.Call) (any, error) {
			n, err := ints(c, 0)
			if err != nil || len(n) != 2 {
				return nil, argError("Month must be between one and twelve.")
			}
			return i32(time.Date(n[0], time.Month(n[1])+1, 0, 0, 0, 0, 0, time.UTC).Day()), nil
		}),
		static("IsLeapYear", func(c *interp.Call) (any, error) {
			n, err := c.Int(0)
			return time.Date(n, 3, 0, 0, 0, 0, 0, time.UTC).Day() == 29, err
		}),
		static("SpecifyKind", func(c *interp.Call) (any, error) {
			d, err := value.ToDate(c.Arg(0))
			if err != nil {
				return nil, err
			}
			loc := map[string]*time.Location{"utc": time.UTC, "local": time.Local}[lower(c.Str(1))]
			if loc == nil {
				return value.Unspecified(d.Time), nil
			}
			return value.DateTime{Time: time.Date(d.Year(), d.Month(), d.Day(), d.Hour(), d.Minute(), d.Second(),
				d.Nanosecond(), loc)}, nil
		}),
	}, Props: []interp.Property{
		get("Date", func(d value.DateTime) any { return midnight(d.Time) }),
		get("Day", func(d value.DateTime) any { return i32(d.Day()) }),
		getErr("DayOfWeek", func(c *interp.Call, d value.DateTime) (any, error) {
			return interp.EnumValue{Class: c.R.Class("System.DayOfWeek"), N: int64(d.Weekday())}, nil
		}),
		get("DayOfYear", func(d value.DateTime) any { return i32(d.YearDay()) }),
		get("Hour", func(d value.DateTime) any { return i32(d.Hour()) }),
		get("Kind", func(d value.DateTime) any { return d.Kind() }),
		get("Millisecond", func(d value.DateTime) any { return i32(d.Nanosecond() / 1e6) }),
		get("Minute", func(d value.DateTime) any { return i32(d.Minute()) }),
		get("Month", func(d value.DateTime) any { return i32(int(d.Month())) }),
		get("Second", func(d value.DateTime) any { return i32(d.Second()) }),
		get("Ticks", func(d value.DateTime) any { return d.Ticks() }),
		get("TimeOfDay", func(d value.DateTime) any { return value.TimeSpan(d.Sub(midnight(d.Time).Time)) }),
		get("Year", func(d value.DateTime) any { return i32(d.Year()) }),
		get("DateTime", func(d value.DateTime) any { return value.FormatDate(d.Time, "F") }),
	}, Methods: []interp.Method{
		adder("AddDays", 24*time.Hour), adder("AddHours", time.Hour), adder("AddMinutes", time.Minute),
		adder("AddSeconds", time.Second), adder("AddMilliseconds", time.Millisecond), adder("AddTicks", 100),
		method("AddMonths", func(c *interp.Call, d value.DateTime) (any, error) {
			n, err := c.Int(0)
			return addMonths(d, n), err
		}),
		method("AddYears", func(c *interp.Call, d value.DateTime) (any, error) {
			n, err := c.Int(0)
			return addMonths(d, 12*n), err
		}),
		method("Add", func(c *interp.Call, d value.DateTime) (any, error) { return value.Add(d, c.Arg(0)) }),
		method("Subtract", func(c *interp.Call, d value.DateTime) (any, error) { return value.Sub(d, c.Arg(0)) }),
		method("ToUniversalTime", func(_ *interp.Call, d value.DateTime) (any, error) {
			return value.DateTime{Time: local(d).UTC()}, nil
		}),
		method("ToLocalTime", func(_ *interp.Call, d value.DateTime) (any, error) {
			if d.Kind() == "Unspecified" {
				return value.DateTime{Time: time.Date(d.Year(), d.Month(), d.Day(), d.Hour(), d.Minute(), d.Second(),
					d.Nanosecond(), time.UTC).Local()}, nil
			}
			return value.DateTime{Time: d.Local()}, nil
		}),
		method("ToFileTimeUtc", func(_ *interp.Call, d value.DateTime) (any, error) {
			const fileEpoch = 504911232000000000 // 1601-01-01 in ticks, where Windows' file times begin
			return value.DateTime{Time: local(d).UTC()}.Ticks() - fileEpoch, nil
		}),
		str("ToShortDateString", "d"), str("ToLongDateString", "D"), str("ToShortTimeString", "t"),
		str("ToLongTimeString", "T"),
	}}
}

// addMonths adds months; a day that the month does not have becomes its last.
func addMonths(d value.DateTime, n int) value.DateTime {
	first := time.Date(d.Year(), d.Month()+time.Month(n), 1, d.Hour(), d.Minute(), d.Second(), d.Nanosecond(),
		d.Location())
	last := first.AddDate(0, 1, -1).Day()
	return value.DateTime{Time: first.AddDate(0, 0, min(d.Day(), last)-1)}
}

// local reads a date without a kind as local time.
func local(d value.DateTime) time.Time {
	if d.Kind() == "Unspecified" {
		return time.Date(d.Year(), d.Month(), d.Day(), d.Hour(), d.Minute(), d.Second(), d.Nanosecond(), time.Local)
	}
	return d.Time
}

func midnight(t time.Time) value.DateTime {
	return value.DateTime{Time: time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())}
}

// offsetClass is DateTimeOffset, as far as Unix times need it.
func offsetClass() *interp.Class {
	return &interp.Class{Name: "System.DateTimeOffset", Statics: []interp.Property{
		computed("Now", func(c *interp.Call) (any, error) { return newOffset(c.R, now(c.R).Local()), nil }),
		computed("UtcNow", func(c *interp.Call) (any, error) { return newOffset(c.R, now(c.R).UTC()), nil }),
	}, StaticMethods: []interp.Method{
		static("FromUnixTimeSeconds", func(c *interp.Call) (any, error) {
			n, err := c.Int(0)
			return newOffset(c.R, time.Unix(int64(n), 0).UTC()), err
		}),
		static("FromUnixTimeMilliseconds", func(c *interp.Call) (any, error) {
			n, err := c.Int(0)
			return newOffset(c.R, time.UnixMilli(int64(n)).UTC()), err
		}),
	}, Props: []interp.Property{
		get("DateTime", func(t time.Time) any { return value.Unspecified(t) }),
		get("UtcDateTime", func(t time.Time) any { return value.DateTime{Time: t.UTC()} }),
		get("LocalDateTime", func(t time.Time) any { return value.DateTime{Time: t.Local()} }),
	}, Methods: []interp.Method{
		method("ToUnixTimeSeconds", func(_ *interp.Call, t time.Time) (any, error) { return t.Unix(), nil }),
		method("ToUnixTimeMilliseconds", func(_ *interp.Call, t time.Time) (any, error) { return t.UnixMilli(), nil }),
		method("ToString", func(c *interp.Call, t time.Time) (any, error) {
			return value.FormatDate(t, c.Str(0)),
				nil
		}),
	}, Cast: func(r *interp.Runner, v any) (any, error) {
		d, err := value.ToDate(v)
		return newOffset(r, local(d)), err
	}}
}

func newOffset(r *interp.Runner, t time.Time) any {
	return instance(r, "System.DateTimeOffset", t, func() string {
		return value.FormatDate(t, "M/d/yyyy h:mm:ss tt zzz")
	})
}

func spanClass() *interp.Class {
	total := func(name string, unit time.Duration) interp.Property {
		return get("Total"+name, func(s value.TimeSpan) any { return float64(s) / float64(unit) })
	}
	from := func(name string, unit time.Duration) interp.Method {
		return static("From"+name, func(c *interp.Call) (any, error) {
			f, err := value.Float(c.Arg(0))
			return value.TimeSpan(f * float64(unit)), err
		})
	}
	return &interp.Class{Name: "System.TimeSpan", New: func(c *interp.Call) (any, error) {
		n, err := ints(c, 0)
		if err != nil {
			return nil, err
		}
		switch len(n) {
		case 0:
			return value.TimeSpan(0), nil
		case 1:
			return value.TimeSpan(n[0] * 100), nil
		case 3:
			n = append([]int{0}, n...)
		}
		for len(n) < 5 {
			n = append(n, 0)
		}
		return value.TimeSpan(time.Duration(n[0])*24*time.Hour + time.Duration(n[1])*time.Hour +
				time.Duration(n[2])*time.Minute + time.Duration(n[3])*time.Second +
				time.Duration(n[4])*time.Millisecond),
			nil
	}, Statics: []interp.Property{constant("Zero", value.TimeSpan(0)), constant("MaxValue", value.TimeSpan(1<<63-1))},
		StaticMethods: []interp.Method{
			from("Days", 24*time.Hour), from("Hours", time.Hour), from("Minutes", time.Minute),
			from("Seconds", time.Second), from("Milliseconds", time.Millisecond), from("Ticks", 100),
			static("Parse", func(c *interp.Call) (any, error) {
				return value.ToSpan(c.Str(0))
			}),
		}, Props: []interp.Property{
			get("Days", func(s value.TimeSpan) any { return i32(int(time.Duration(s) / (24 * time.Hour))) }),
			get("Hours", func(s value.TimeSpan) any { return i32(int(time.Duration(s)/time.Hour) % 24) }),
			get("Minutes", func(s value.TimeSpan) any { return i32(int(time.Duration(s)/time.Minute) % 60) }),
			get("Seconds", func(s value.TimeSpan) any { return i32(int(time.Duration(s)/time.Second) % 60) }),
			get("Milliseconds", func(s value.TimeSpan) any {
				return i32(int(time.Duration(s)/time.Millisecond) % 1000)
			}),
			get("Ticks", func(s value.TimeSpan) any { return int64(s) / 100 }),
			total("Days", 24*time.Hour), total("Hours", time.Hour), total("Minutes", time.Minute),
			total("Seconds", time.Second), total("Milliseconds", time.Millisecond),
		}, Methods: []interp.Method{
			method("Add", func(c *interp.Call, s value.TimeSpan) (any, error) { return value.Add(s, c.Arg(0)) }),
			method("Subtract", func(c *interp.Call, s value.TimeSpan) (any, error) { return value.Sub(s, c.Arg(0)) }),
			method("Negate", func(_ *interp.Call, s value.TimeSpan) (any, error) { return -s, nil }),
			method("Duration", func(_ *interp.Call, s value.TimeSpan) (any, error) { return max(s, -s), nil }),
		}}
}

// stopwatch is System.Diagnostics.Stopwatch.
type stopwatch struct {
	start   time.Time
	total   time.Duration
	running bool
}

func (w *stopwatch) elapsed(t time.Time) time.Duration {
	if w.running {
		return w.total + t.Sub(w.start)
	}
	return w.total
}

func stopwatchClass() *interp.Class {
	const name = "System.Diagnostics.Stopwatch"
	read := func(p string, f func(time.Duration) any) interp.Property {
		return getErr(p, func(c *interp.Call, w *stopwatch) (any, error) { return f(w.elapsed(now(c.R))), nil })
	}
	start := func(c *interp.Call, w *stopwatch) {
		if !w.running {
			w.start, w.running = now(c.R), true
		}
	}
	return &interp.Class{
		Name: name,
		New:  func(c *interp.Call) (any, error) { return instance(c.R, name, &stopwatch{}, nil), nil },
		StaticMethods: []interp.Method{
			static("StartNew", func(c *interp.Call) (any, error) {
				w := &stopwatch{}
				start(c, w)
				return instance(c.R, name, w, nil), nil
			}),
			static("GetTimestamp", func(c *interp.Call) (any, error) { return now(c.R).UnixNano() / 100, nil }),
		},
		Statics: []interp.Property{constant("Frequency", int64(10_000_000)), constant("IsHighResolution", true)},
		Props: []interp.Property{
			get("IsRunning", func(w *stopwatch) any { return w.running }),
			read("Elapsed", func(d time.Duration) any { return value.TimeSpan(d) }),
			read("ElapsedMilliseconds", func(d time.Duration) any { return d.Milliseconds() }),
			read("ElapsedTicks", func(d time.Duration) any { return int64(d) / 100 }),
		},
		Methods: []interp.Method{
			method("Start", func(c *interp.Call, w *stopwatch) (any, error) { start(c, w); return interp.Void, nil }),
			method("Stop", func(c *interp.Call, w *stopwatch) (any, error) {
				w.total, w.running = w.elapsed(now(c.R)), false
				return interp.Void, nil
			}),
			method("Reset", func(_ *interp.Call, w *stopwatch) (any, error) {
				*w = stopwatch{}
				return interp.Void, nil
			}),
			method("Restart", func(c *interp.Call, w *stopwatch) (any, error) {
				*w = stopwatch{}
				start(c, w)
				return interp.Void, nil
			}),
		},
	}
}
