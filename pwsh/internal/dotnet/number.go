// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"math"
	"math/rand/v2"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// numberClasses returns the numeric types, Math, Boolean and Random.
func numberClasses() []*interp.Class {
	var list []*interp.Class
	ranges := []struct {
		name     string
		min, max any
	}{
		{"Int32", int32(math.MinInt32), int32(math.MaxInt32)}, {"Int64", int64(math.MinInt64), int64(math.MaxInt64)},
		{"Byte", uint8(0), uint8(255)}, {"SByte", int8(-128), int8(127)},
		{"Int16", int16(math.MinInt16), int16(math.MaxInt16)}, {"UInt16", uint16(0), uint16(math.MaxUint16)},
		{"UInt32", uint32(0), uint32(math.MaxUint32)}, {"UInt64", uint64(0), uint64(math.MaxUint64)},
		{"Double", -math.MaxFloat64, math.MaxFloat64}, {"Single", float32(-math.MaxFloat32), float32(math.MaxFloat32)},
	}
	for _, r := range ranges {
		full := "System." + r.name
		parse := func(c *interp.Call) (any, error) { return c.R.ConvertTo(c.Str(0), full) }
		k := &interp.Class{
			Name:    full,
			Statics: []interp.Property{constant("MinValue", r.min), constant("MaxValue", r.max)},
			StaticMethods: []interp.Method{static("Parse", func(c *interp.Call) (any, error) {
				v, err := parse(c)
				if err != nil || c.Str(0) == "" {
					return nil, interp.Failf("System.FormatException", "FormatException", "NotSpecified", nil,
						"Input string was not in a correct format.")
				}
				return v, nil
			})},
			New: func(c *interp.Call) (any, error) { return c.R.ConvertTo(int32(0), full) },
		}
		if r.name == "Double" {
			k.Statics = append(k.Statics, constant("NaN", math.NaN()), constant("PositiveInfinity", math.Inf(1)),
				constant("NegativeInfinity", math.Inf(-1)), constant("Epsilon", math.SmallestNonzeroFloat64))
			k.StaticMethods = append(k.StaticMethods, floatTest("IsNaN", math.IsNaN),
				floatTest("IsInfinity", func(f float64) bool {
					return math.IsInf(f, 0)
				}))
		}
		list = append(list, k)
	}
	return append(list,
		&interp.Class{Name: "System.Boolean", Statics: []interp.Property{constant("TrueString", "True"),
			constant("FalseString", "False")},
			StaticMethods: []interp.Method{static("Parse", func(c *interp.Call) (any, error) {
				switch s := c.Str(0); {
				case value.Equal(s, "true", false):
					return true, nil
				case value.Equal(s, "false", false):
					return false, nil
				}
				return nil, interp.Failf("System.FormatException", "FormatException", "NotSpecified", nil,
					"String was not recognized as a valid Boolean.")
			})}},
		mathClass(), randomClass())
}

func floatTest(name string, f func(float64) bool) interp.Method {
	return static(name, func(c *interp.Call) (any, error) {
		x, err := value.Float(c.Arg(0))
		return f(x), err
	})
}

func float1(name string, f func(float64) float64) interp.Method {
	return static(name, func(c *interp.Call) (any, error) {
		x, err := value.Float(c.Arg(0))
		return f(x), err
	})
}

// Length: one table; splitting hides which names belong together.
func mathClass() *interp.Class {
	pick := func(name string, sign int) interp.Method {
		return static(name, func(c *interp.Call) (any, error) {
			if err := c.Need(2); err != nil {
				return nil, err
			}
			x, err := value.Number(c.Arg(0))
			if err != nil {
				return nil, err
			}
			y, err := value.Number(c.Arg(1))
			if err != nil {
				return nil, err
			}
			sum, err := value.Mul(x, y) // only for the type that both have together
			if err != nil {
				return nil, err
			}
			best := x
			if n, _ := value.Compare(y, x, true); n*sign > 0 {
				best = y
			}
			if _, isFloat := sum.(float64); isFloat {
				if _, fx := x.(float64); fx {
					return value.Float(best)
				}
				if _, fy := y.(float64); fy {
					return value.Float(best)
				}
			}
			return best, nil
		})
	}
	return &interp.Class{Name: "System.Math", Statics: []interp.Property{constant("PI", math.Pi),
		constant("E", math.E)},
		StaticMethods: []interp.Method{
			pick("Max", 1), pick("Min", -1),
			static("Abs", func(c *interp.Call) (any, error) {
				x, err := value.Number(c.Arg(0))
				if err != nil {
					return nil, err
				}
				if n, _ := value.Compare(x, int32(0), true); n < 0 {
					return value.Negate(x)
				}
				return x, nil
			}),
			float1("Floor", math.Floor), float1("Ceiling", math.Ceil), float1("Truncate", math.Trunc),
			float1("Sqrt", math.Sqrt), float1("Sin", math.Sin), float1("Cos", math.Cos), float1("Tan", math.Tan),
			float1("Asin", math.Asin), float1("Acos", math.Acos), float1("Atan", math.Atan), float1("Exp", math.Exp),
			float1("Log10", math.Log10), static("Log", func(c *interp.Call) (any, error) {
				x, err := value.Float(c.Arg(0))
				if err != nil || c.N() < 2 {
					return math.Log(x), err
				}
				b, err := value.Float(c.Arg(1))
				return math.Log(x) / math.Log(b), err
			}),
			static("Pow", func(c *interp.Call) (any, error) {
				x, err := value.Float(c.Arg(0))
				if err != nil {
					return nil, err
				}
				y, err := value.Float(c.Arg(1))
				return math.Pow(x, y), err
			}),
			static("Atan2", func(c *interp.Call) (any, error) {
				y, err := value.Float(c.Arg(0))
				if err != nil {
					return nil, err
				}
				x, err := value.Float(c.Arg(1))
				return math.Atan2(y, x), err
			}),
			static("Sign", func(c *interp.Call) (any, error) {
				x, err := value.Float(c.Arg(0))
				switch {
				case x > 0:
					return int32(1), err
				case x < 0:
					return int32(-1), err
				}
				return int32(0), err
			}),
			static("Round", func(c *interp.Call) (any, error) {
				x, err := value.Float(c.Arg(0))
				if err != nil {
					return nil, err
				}
				digits, away := 0, false
				for i := 1; i < c.N(); i++ {
					if n, ok := c.Arg(i).(int32); ok {
						digits = int(n)
					} else if value.Equal(value.String(c.Arg(i)), "AwayFromZero", false) {
						away = true
					}
				}
				if digits < 0 || digits > 15 {
					return nil, argError("Rounding digits must be between 0 and 15, inclusive.")
				}
				scale := math.Pow(10, float64(digits))
				if away {
					return math.Round(x*scale) / scale, nil
				}
				return math.RoundToEven(x*scale) / scale, nil
			}),
			static("DivRem", func(*interp.Call) (any, error) {
				return nil, interp.NotImplemented("[Math]::DivRem (a [ref] argument)")
			}),
		}}
}

func randomClass() *interp.Class {
	return &interp.Class{Name: "System.Random", New: func(c *interp.Call) (any, error) {
		g := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		if c.N() > 0 {
			n, err := c.Int(0)
			if err != nil {
				return nil, err
			}
			g = rand.New(rand.NewPCG(uint64(n), 0))
		}
		return instance(c.R, "System.Random", g, nil), nil
	}, Methods: []interp.Method{
		method("Next", func(c *interp.Call, g *rand.Rand) (any, error) {
			n, err := ints(c, 0)
			if err != nil {
				return nil, err
			}
			lo, hi := 0, math.MaxInt32
			switch len(n) {
			case 1:
				hi = n[0]
			case 2:
				lo, hi = n[0], n[1]
			}
			if hi < lo {
				return nil, argError("'minValue' cannot be greater than maxValue.")
			}
			if hi == lo {
				return i32(lo), nil
			}
			return i32(lo + g.IntN(hi-lo)), nil
		}),
		method("NextDouble", func(_ *interp.Call, g *rand.Rand) (any, error) { return g.Float64(), nil }),
		method("NextBytes", func(c *interp.Call, g *rand.Rand) (any, error) {
			if a, ok := c.Arg(0).(*value.Array); ok {
				for i := range a.Items {
					a.Items[i] = uint8(g.UintN(256))
				}
			}
			return interp.Void, nil
		}),
	}}
}
