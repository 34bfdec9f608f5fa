// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package value

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// ErrDivideByZero is PowerShell's message.
var ErrDivideByZero = errors.New("Attempted to divide by zero.")

// MaxItems bounds the result of one operator, so that 'x' * 1e9 is an error
// and not the end of the process. Characters or elements.
const MaxItems = 1 << 26

// ErrTooLarge is returned where a result would pass MaxItems.
var ErrTooLarge = errors.New("Exception of type 'System.OutOfMemoryException' was thrown.")

// OpError is the error of an operator that does not accept its operands.
type OpError struct {
	Op   string
	X, Y any
}

// Error is PowerShell's own message.
func (e *OpError) Error() string {
	names := map[string]string{"+": "op_Addition", "-": "op_Subtraction", "*": "op_Multiply", "/": "op_Division",
		"%": "op_Modulus"}
	return fmt.Sprintf("Method invocation failed because [%s] does not contain a method named '%s'.", TypeName(e.X),
		names[e.Op])
}

// Add is x + y: the type of x decides.
func Add(x, y any) (any, error) {
	if a, ok := x.(int32); ok {
		if b, ok := y.(int32); ok {
			return addInt(int64(a), int64(b), false)
		}
	}
	switch a := Unwrap(x).(type) {
	case nil:
		if _, ok := Items(y); ok {
			return y, nil
		}
		return Unwrap(y), nil
	case string:
		s := String(y)
		if len(a)+len(s) > MaxItems {
			return nil, ErrTooLarge
		}
		return a + s, nil
	case Char:
		if _, isText := y.(string); isText {
			return string(rune(a)) + y.(string), nil
		}
		if c, ok := y.(Char); ok {
			return string(rune(a)) + string(rune(c)), nil
		}
	case *Array, *List:
		items, _ := Items(a)
		more, ok := Items(y)
		if !ok {
			more = []any{y}
		}
		if len(items)+len(more) > MaxItems {
			return nil, ErrTooLarge
		}
		return NewArray(append(append(make([]any, 0, len(items)+len(more)), items...), more...)...), nil
	case *Hash:
		b, ok := Unwrap(y).(*Hash)
		if !ok {
			return nil, errors.New("A hash table can only be added to another hash table.")
		}
		sum := a.Clone()
		for _, k := range b.Keys() {
			if _, dup := sum.Get(k); dup {
				return nil, fmt.Errorf("Item has already been added. Key in dictionary: '%s'  Key being added: '%s'",
					String(k), String(k))
			}
			v, _ := b.Get(k)
			sum.Set(k, v)
		}
		return sum, nil
	case DateTime:
		d, err := ToSpan(y)
		if err != nil {
			return nil, err
		}
		return DateTime{a.Add(time.Duration(d))}, nil
	case TimeSpan:
		d, err := ToSpan(y)
		return a + d, err
	case *Object:
		return nil, &OpError{"+", x, y}
	}
	return arith(x, y, "+")
}

// Sub is x - y.
func Sub(x, y any) (any, error) {
	switch a := Unwrap(x).(type) {
	case DateTime:
		if b, ok := Unwrap(y).(DateTime); ok {
			return TimeSpan(wall(a).Sub(wall(b))), nil
		}
		d, err := ToSpan(y)
		if err != nil {
			return nil, err
		}
		return DateTime{a.Add(-time.Duration(d))}, nil
	case TimeSpan:
		d, err := ToSpan(y)
		return a - d, err
	}
	return arith(x, y, "-")
}

// wall returns a date's clock reading, without its zone: .NET subtracts these.
func wall(d DateTime) time.Time {
	return time.Date(d.Year(), d.Month(), d.Day(), d.Hour(), d.Minute(), d.Second(), d.Nanosecond(), time.UTC)
}

// Mul is x * y; text and arrays are repeated.
func Mul(x, y any) (any, error) {
	switch a := Unwrap(x).(type) {
	case string:
		n, err := ToInt(y)
		if err != nil || n < 0 {
			return nil, countError(y, err)
		}
		if len(a)*n > MaxItems || n > MaxItems {
			return nil, ErrTooLarge
		}
		return strings.Repeat(a, n), nil
	case *Array, *List:
		items, _ := Items(a)
		n, err := ToInt(y)
		if err != nil || n < 0 {
			return nil, countError(y, err)
		}
		if n > MaxItems || len(items)*n > MaxItems/8 {
			return nil, ErrTooLarge
		}
		out := make([]any, 0, len(items)*n)
		for range n {
			out = append(out, items...)
		}
		return NewArray(out...), nil
	}
	return arith(x, y, "*")
}

func countError(y any, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("Cannot multiply by the negative number %s.", String(y))
}

// Div is x / y: integers give an integer if there is no remainder.
func Div(x, y any) (any, error) { return arith(x, y, "/") }

// Mod is x % y.
func Mod(x, y any) (any, error) { return arith(x, y, "%") }

func addInt(a, b int64, long bool) (any, error) {
	s := a + b
	if !long {
		if s >= math.MinInt32 && s <= math.MaxInt32 {
			return int32(s), nil
		}
		return float64(s), nil // as PowerShell: an overflow of Int32 results in a Double
	}
	if (s > a) != (b > 0) && b != 0 {
		return float64(a) + float64(b), nil
	}
	return s, nil
}

// arith does numbers: the wider operand's type wins, and a result that overflows
// becomes a Double.
func arith(x, y any, op string) (any, error) {
	switch Unwrap(x).(type) {
	case *Array, *List, *Hash, *Object, DateTime, *Type:
		return nil, &OpError{op, x, y}
	}
	nx, err := Number(x)
	if err != nil {
		if _, isText := Unwrap(x).(string); !isText {
			return nil, &OpError{op, x, y}
		}
		return nil, err
	}
	switch Unwrap(y).(type) {
	case *Array, *List, *Hash:
		return nil, &OpError{op, y, x}
	}
	ny, err := Number(y)
	if err != nil {
		return nil, err
	}
	_, fx := nx.(float64)
	_, fy := ny.(float64)
	if fx || fy {
		a, _ := asFloat(nx)
		b, _ := asFloat(ny)
		switch op {
		case "+":
			return a + b, nil
		case "-":
			return a - b, nil
		case "*":
			return a * b, nil
		case "/":
			return a / b, nil
		}
		return math.Mod(a, b), nil
	}
	a, _ := asInt(nx)
	b, _ := asInt(ny)
	_, la := nx.(int64)
	_, lb := ny.(int64)
	long := la || lb
	switch op {
	case "+":
		return addInt(a, b, long)
	case "-":
		if b == math.MinInt64 {
			return float64(a) - float64(b), nil
		}
		return addInt(a, -b, long)
	case "*":
		p := a * b
		if a != 0 && (p/a != b || a == -1 && b == math.MinInt64) {
			return float64(a) * float64(b), nil
		}
		if !long && (p < math.MinInt32 || p > math.MaxInt32) {
			return float64(p), nil
		}
		if !long {
			return int32(p), nil
		}
		return p, nil
	}
	if b == 0 {
		return nil, ErrDivideByZero
	}
	if op == "%" {
		if b == -1 {
			return narrow(0, long), nil
		}
		return narrow(a%b, long), nil
	}
	if b != -1 && a%b == 0 {
		return narrow(a/b, long), nil
	}
	if b == -1 && a != math.MinInt64 && (long || a != math.MinInt32) {
		return narrow(-a, long), nil
	}
	return float64(a) / float64(b), nil
}

func narrow(n int64, long bool) any {
	if long || n > math.MaxInt32 || n < math.MinInt32 {
		return n
	}
	return int32(n)
}

// Negate is -x.
func Negate(x any) (any, error) { return Sub(int32(0), x) }

// ToSpan converts to a TimeSpan: a number counts ticks of 100 ns.
func ToSpan(v any) (TimeSpan, error) {
	switch v := Unwrap(v).(type) {
	case TimeSpan:
		return v, nil
	case string:
		if d, ok := parseSpan(v); ok {
			return TimeSpan(d), nil
		}
		return 0, &ConvertError{v, "System.TimeSpan", "String was not recognized as a valid TimeSpan."}
	}
	n, err := Int(v, "System.Int64")
	if err != nil {
		return 0, &ConvertError{v, "System.TimeSpan", ""}
	}
	return TimeSpan(n.(int64) * 100), nil
}

// Equal is x -eq y for single values: the type of x decides.
func Equal(x, y any, sensitive bool) bool {
	if a, ok := x.(int32); ok {
		if b, ok := y.(int32); ok {
			return a == b
		}
	}
	x, y = Unwrap(x), Unwrap(y)
	if x == nil || y == nil {
		return x == nil && y == nil
	}
	switch a := x.(type) {
	case string:
		return equalText(a, String(y), sensitive)
	case bool:
		return a == Bool(y)
	case Char:
		if b, ok := y.(string); ok {
			return equalText(string(rune(a)), b, sensitive)
		}
		if b, ok := y.(Char); ok {
			return equalText(string(rune(a)), string(rune(b)), sensitive)
		}
	case *Type:
		if b, ok := y.(*Type); ok {
			return a.Name == b.Name
		}
		if b, ok := y.(string); ok {
			return strings.EqualFold(displayType(a.Name), b) || strings.EqualFold(a.Name, b)
		}
		return false
	case Guid:
		return strings.EqualFold(string(a), strings.Trim(String(y), "{}"))
	case *Array, *List, *Hash:
		return x == y
	case Keyer:
		if b, ok := y.(Keyer); ok {
			return a.HashKey() == b.HashKey()
		}
		if n, ok := x.(interface{ IntValue() int64 }); ok && IsNumber(y) {
			i, isInt := asInt(y)
			return isInt && i == n.IntValue()
		}
		return equalText(String(x), String(y), sensitive)
	}
	if c, ok := Compare(x, y, sensitive); ok {
		return c == 0
	}
	if same, ok := identical(x, y); ok && same {
		return true
	}
	if b, ok := y.(string); ok {
		if _, texter := x.(Texter); texter {
			return equalText(String(x), b, sensitive)
		}
	}
	return false
}

// identical compares values that Go can compare, by identity.
func identical(x, y any) (same, ok bool) {
	defer func() {
		if recover() != nil { // a type that cannot be compared
			same, ok = false, false
		}
	}()
	return x == y, true
}

func equalText(a, b string, sensitive bool) bool {
	if sensitive {
		return a == b
	}
	return strings.EqualFold(a, b)
}

// Compare orders two single values; ok is false where there is no order.
func Compare(x, y any, sensitive bool) (c int, ok bool) {
	x, y = Unwrap(x), Unwrap(y)
	switch a := x.(type) {
	case nil:
		if y == nil {
			return 0, true
		}
		if n, isNum := asFloat(y); isNum && n < 0 {
			return 1, true
		}
		return -1, true
	case string:
		return CompareText(a, String(y), sensitive), true
	case Char:
		if b, isText := y.(string); isText {
			return CompareText(string(rune(a)), b, sensitive), true
		}
	case bool:
		return sign(b2i(a) - b2i(Bool(y))), true
	case DateTime:
		b, err := ToDate(y)
		if err != nil {
			return 0, false
		}
		return wall(a).Compare(wall(b)), true
	case TimeSpan:
		b, err := ToSpan(y)
		if err != nil {
			return 0, false
		}
		return sign(cmp64(int64(a), int64(b))), true
	case Version:
		switch b := y.(type) {
		case Version:
			return a.compare(b), true
		}
		b, good := ParseVersion(String(y))
		return a.compare(b), good
	case interface{ IntValue() int64 }:
		if s, isText := y.(string); isText {
			if t, isTexter := x.(Texter); isTexter {
				return CompareText(t.Text(), s, sensitive), true
			}
		}
	}
	if y == nil {
		if n, isNum := asFloat(x); isNum && n < 0 {
			return -1, true
		}
		return 1, true
	}
	switch y.(type) {
	case *Array, *List, *Hash, DateTime:
		return 0, false
	}
	nx, err := Number(x)
	if err != nil {
		return 0, false
	}
	ny, err := Number(y)
	if err != nil {
		return 0, false
	}
	a, aInt := asInt(nx)
	b, bInt := asInt(ny)
	if aInt && bInt {
		return cmp64(a, b), true
	}
	fa, _ := asFloat(nx)
	fb, _ := asFloat(ny)
	switch {
	case fa < fb:
		return -1, true
	case fa > fb:
		return 1, true
	case fa == fb:
		return 0, true
	}
	return 1, true // NaN
}

func cmp64(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// CompareText orders text as .NET's culture comparison does for letters and
// digits: without case first, and lower case before upper where that ties and
// case counts.
func CompareText(a, b string, sensitive bool) int {
	la, lb := strings.ToLower(a), strings.ToLower(b)
	if c := strings.Compare(la, lb); c != 0 || !sensitive {
		return c
	}
	return -strings.Compare(a, b)
}

// Like matches a wildcard pattern: * ? [abc] [a-z], and ` escapes.
// Source: about_Wildcards.
func Like(s, pattern string, sensitive bool) bool {
	if !sensitive {
		s, pattern = strings.ToLower(s), strings.ToLower(pattern)
	}
	return like([]rune(s), []rune(pattern))
}

// like matches with one point of return per star, so its time is bounded by
// len(s) * len(p).
func like(s, p []rune) bool {
	si, pi := 0, 0
	starP, starS := -1, 0
	for si < len(s) {
		if pi < len(p) {
			if p[pi] == '*' {
				starP, starS = pi, si
				pi++
				continue
			}
			if n, ok := likeOne(s[si], p[pi:]); ok {
				pi += n
				si++
				continue
			}
		}
		if starP < 0 {
			return false
		}
		starS++
		si, pi = starS, starP+1
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}

// likeOne matches one character; n is the length of the pattern's part.
func likeOne(c rune, p []rune) (n int, ok bool) {
	switch p[0] {
	case '?':
		return 1, true
	case '`':
		if len(p) > 1 {
			return 2, c == p[1]
		}
	case '[':
		end := -1
		for i := 1; i < len(p); i++ {
			if p[i] == ']' && i > 1 {
				end = i
				break
			}
		}
		if end < 0 {
			return 1, c == '['
		}
		for i := 1; i < end; i++ {
			if i+2 < end && p[i+1] == '-' {
				if p[i] <= c && c <= p[i+2] {
					return end + 1, true
				}
				i += 2
				continue
			}
			if p[i] == c {
				return end + 1, true
			}
		}
		return end + 1, false
	}
	return 1, c == p[0]
}

// HasWildcard reports whether a pattern has a special character.
func HasWildcard(s string) bool { return strings.ContainsAny(s, "*?[") }
