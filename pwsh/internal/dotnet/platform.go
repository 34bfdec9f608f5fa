// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// convertClasses are Convert, BitConverter, Guid and Version.
//
// Length: one table; splitting hides which names belong together.
func convertClasses() []*interp.Class {
	to := func(name string) interp.Method {
		return static("To"+name, func(c *interp.Call) (any, error) {
			if b, ok := c.Arg(1).(int32); ok && strings.Contains(name, "Int") || ok && name == "Byte" {
				n, err := strconv.ParseInt(strings.TrimPrefix(strings.ToLower(c.Str(0)), "0x"), int(b), 64)
				if err != nil {
					return nil, interp.Failf("System.FormatException", "FormatException", "NotSpecified", nil,
						"Could not find any recognizable digits.")
				}
				return c.R.ConvertTo(n, "System."+name)
			}
			return c.R.ConvertTo(c.Arg(0), "System."+name)
		})
	}
	k := &interp.Class{Name: "System.Convert", StaticMethods: []interp.Method{
		to("Int32"), to("Int64"), to("Int16"), to("UInt32"), to("UInt64"), to("UInt16"), to("Byte"), to("Double"),
		to("Boolean"), to("Char"), to("DateTime"), to("Single"), static("ToString", func(c *interp.Call) (any, error) {
			if c.N() == 2 {
				if base, err := c.Int(1); err == nil && (base == 2 || base == 8 || base == 16 || base == 10) {
					n, err := value.Int(c.Arg(0), "System.Int64")
					if err != nil {
						return nil, err
					}
					i := n.(int64)
					if _, is32 := c.Arg(0).(int32); is32 && i < 0 && base != 10 {
						return strconv.FormatUint(uint64(uint32(i)), base), nil
					}
					if base == 10 {
						return strconv.FormatInt(i, 10), nil
					}
					return strconv.FormatUint(uint64(i), base), nil
				}
			}
			return c.Str(0), nil
		}),
		static("ToBase64String", func(c *interp.Call) (any, error) {
			b, err := value.Bytes(c.Arg(0))
			return base64.StdEncoding.EncodeToString(b), err
		}),
		static("FromBase64String", func(c *interp.Call) (any, error) {
			b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(c.Str(0)), ""))
			if err != nil {
				return nil, interp.Failf("System.FormatException", "FormatException", "NotSpecified", nil,
					"The input is not a valid Base-64 string as it contains a non-base 64 character, more than two "+
						"padding characters, or an illegal character among the padding characters.")
			}
			return value.NewBytes(b), nil
		}),
		static("ToHexString", func(c *interp.Call) (any, error) {
			b, err := value.Bytes(c.Arg(0))
			return fmt.Sprintf("%X", b), err
		}),
	}}
	return []*interp.Class{k,
		{Name: "System.BitConverter", StaticMethods: []interp.Method{
			static("ToString", func(c *interp.Call) (any, error) {
				b, err := value.Bytes(c.Arg(0))
				parts := make([]string, len(b))
				for i, x := range b {
					parts[i] = fmt.Sprintf("%02X", x)
				}
				return strings.Join(parts, "-"), err
			}),
			static("GetBytes", func(c *interp.Call) (any, error) {
				n, err := value.Int(c.Arg(0), "System.Int64")
				if err != nil {
					return nil, err
				}
				size := 8
				if _, ok := c.Arg(0).(int32); ok {
					size = 4
				}
				b := make([]byte, size)
				for i := range b {
					b[i] = byte(n.(int64) >> (8 * i))
				}
				return value.NewBytes(b), nil
			}),
			static("ToInt32", func(c *interp.Call) (any, error) {
				b, err := value.Bytes(c.Arg(0))
				at, err2 := c.Int(1)
				if err != nil || err2 != nil || at < 0 || at+4 > len(b) {
					return nil, argError("Destination array is not long enough to copy all the items in the " +
						"collection. Check array index and length.")
				}
				return int32(b[at]) | int32(b[at+1])<<8 | int32(b[at+2])<<16 | int32(b[at+3])<<24, nil
			}),
		}, Statics: []interp.Property{constant("IsLittleEndian", true)}},
		{Name: "System.Guid", New: func(c *interp.Call) (any, error) {
			if c.N() == 0 {
				return value.Guid("00000000-0000-0000-0000-000000000000"), nil
			}
			return c.R.ConvertTo(c.Arg(0), "System.Guid")
		}, StaticMethods: []interp.Method{
			static("NewGuid", func(c *interp.Call) (any, error) { return NewGUID(c.R), nil }),
			static("Parse", func(c *interp.Call) (any, error) { return c.R.ConvertTo(c.Arg(0), "System.Guid") }),
		}, Statics: []interp.Property{constant("Empty", value.Guid("00000000-0000-0000-0000-000000000000"))},
			Props: []interp.Property{get("Guid", func(g value.Guid) any { return string(g) })}},
		{Name: "System.Version", New: func(c *interp.Call) (any, error) {
			if c.N() == 1 {
				return c.R.ConvertTo(c.Str(0), "System.Version")
			}
			n, err := ints(c, 0)
			if err != nil {
				return nil, err
			}
			for len(n) < 4 {
				n = append(n, -1)
			}
			return value.Version{Major: n[0], Minor: n[1], Build: n[2], Revision: n[3]}, nil
		}, StaticMethods: []interp.Method{
			static("Parse", func(c *interp.Call) (any, error) { return c.R.ConvertTo(c.Str(0), "System.Version") }),
		}, Props: []interp.Property{
			get("Major", func(v value.Version) any { return i32(v.Major) }), get("Minor", func(v value.Version) any {
				return i32(v.Minor)
			}),
			get("Build", func(v value.Version) any { return i32(v.Build) }), get("Revision", func(v value.Version) any {
				return i32(v.Revision)
			}),
		}},
	}
}

// NewGUID returns a random GUID of version 4 (RFC 9562, 5.4).
func NewGUID(r *interp.Runner) value.Guid {
	var b [16]byte
	for i := range b {
		b[i] = byte(r.Rand().Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return value.Guid(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// environmentClasses is Environment.
//
// Length: one table; splitting hides which names belong together.
func environmentClasses() []*interp.Class {
	sys := func(name string, f func(s host.System, c *interp.Call) any) interp.Property {
		return computed(name, func(c *interp.Call) (any, error) {
			s := c.R.Handlers().System
			if s == nil {
				return nil, interp.NotImplemented("[Environment]::" + name)
			}
			return f(s, c), nil
		})
	}
	return []*interp.Class{
		{Name: "System.Environment", Statics: []interp.Property{
			sys("MachineName", func(s host.System, _ *interp.Call) any { return strings.ToUpper(s.Hostname()) }),
			sys("UserName", func(s host.System, _ *interp.Call) any { return s.UserName() }),
			sys("UserDomainName", func(s host.System, _ *interp.Call) any {
				if id, err := s.Identity(); err == nil {
					if domain, _, ok := strings.Cut(id.Name, `\`); ok {
						return domain
					}
				}
				return strings.ToUpper(s.Hostname())
			}),
			sys("ProcessorCount", func(s host.System, _ *interp.Call) any { return i32(s.ProcessorCount()) }),
			sys("ProcessId", func(s host.System, _ *interp.Call) any { return i32(s.PID()) }),
			sys("TickCount", func(s host.System, c *interp.Call) any {
				return int32(now(c.R).Sub(s.BootTime()).Milliseconds())
			}),
			sys("OSVersion", func(s host.System, _ *interp.Call) any {
				v, _ := value.ParseVersion(s.OSVersion())
				o := value.NewObject("System.OperatingSystem", "Platform", "Win32NT", "ServicePack", "", "Version", v,
					"VersionString", "Microsoft Windows NT "+s.OSVersion())
				o.Str = "Microsoft Windows NT " + s.OSVersion()
				return o
			}),
			computed("NewLine", func(c *interp.Call) (any, error) { return c.R.Newline(), nil }),
			constant("Is64BitOperatingSystem", true), constant("Is64BitProcess", true),
			constant("UserInteractive", false), computed("CurrentDirectory", func(c *interp.Call) (any, error) {
				return c.R.Location, nil
			}),
			computed("SystemDirectory", func(c *interp.Call) (any, error) { return `C:\Windows\system32`, nil }),
			constant("Version", value.Version{Major: 4, Minor: 0, Build: 30319, Revision: 42000}),
			computed("CommandLine", func(*interp.Call) (any, error) { return "powershell.exe", nil }),
		}, StaticMethods: []interp.Method{
			static("GetEnvironmentVariable", func(c *interp.Call) (any, error) {
				if e := c.R.Handlers().Env; e != nil {
					if v, ok := e.Get(c.Str(0)); ok {
						return v, nil
					}
				}
				return nil, nil
			}),
			static("SetEnvironmentVariable", func(c *interp.Call) (any, error) {
				e := c.R.Handlers().Env
				if e == nil {
					return nil, interp.NotImplemented("the environment")
				}
				// Fidelity: simplified - the targets Machine and User change the process only (docs/fidelity/pwsh.md).
				if c.Str(1) == "" {
					return interp.Void, e.Unset(c.Str(0))
				}
				return interp.Void, e.Set(c.Str(0), c.Str(1))
			}),
			static("GetEnvironmentVariables", func(c *interp.Call) (any, error) {
				h := &value.Hash{}
				if e := c.R.Handlers().Env; e != nil {
					for _, kv := range e.List() {
						if i := strings.IndexByte(kv[min(1, len(kv)):], '='); i >= 0 {
							h.Set(kv[:i+1], kv[i+2:])
						}
					}
				}
				return h, nil
			}),
			static("ExpandEnvironmentVariables", func(c *interp.Call) (any, error) {
				parts := strings.Split(c.Str(0), "%")
				var b strings.Builder
				env := c.R.Handlers().Env
				for i := range parts {
					if i%2 == 1 && i+1 < len(parts) {
						if v, ok := lookupEnv(env, parts[i]); ok && parts[i] != "" {
							b.WriteString(v)
							continue
						}
						b.WriteString("%" + parts[i] + "%")
						continue
					}
					if i%2 == 1 {
						b.WriteString("%")
					}
					b.WriteString(parts[i])
				}
				return b.String(), nil
			}),
			static("GetFolderPath", func(c *interp.Call) (any, error) {
				home := ""
				if s := c.R.Handlers().System; s != nil {
					home = s.HomeDir()
				}
				switch lower(c.Str(0)) {
				case "userprofile":
					return home, nil
				case "system":
					return `C:\Windows\system32`, nil
				case "windows":
					return `C:\Windows`, nil
				case "programfiles":
					return `C:\Program Files`, nil
				case "commonapplicationdata":
					return `C:\ProgramData`, nil
				case "applicationdata":
					return home + `\AppData\Roaming`, nil
				case "localapplicationdata":
					return home + `\AppData\Local`, nil
				case "desktop":
					return home + `\Desktop`, nil
				case "mydocuments", "personal":
					return home + `\Documents`, nil
				}
				return nil, interp.NotImplemented("the special folder " + c.Str(0))
			}),
			static("Exit", func(c *interp.Call) (any, error) {
				n, err := c.Int(0)
				if err != nil {
					return nil, err
				}
				return nil, interp.ExitError(n)
			}),
		}},
		enum("System.EnvironmentVariableTarget", "Process", "User", "Machine"),
	}
}

func lookupEnv(e host.Environment, name string) (string, bool) {
	if e == nil {
		return "", false
	}
	return e.Get(name)
}

// consoleClasses is Console.
func consoleClasses() []*interp.Class {
	write := func(name, end string) interp.Method {
		return static(name, func(c *interp.Call) (any, error) {
			s, err := formatArgs(c)
			if err != nil {
				return nil, err
			}
			return interp.Void, c.R.Host(s + end)
		})
	}
	ignored := func(name string, v any) interp.Property {
		return interp.Property{Name: name, Get: func(*interp.Call) (any, error) { return v, nil },
			Set: func(*interp.Call, any) error {
				return nil
			}}
	}
	return []*interp.Class{
		{Name: "System.Console", StaticMethods: []interp.Method{
			write("WriteLine", "\n"), write("Write", ""),
			static("ReadLine", func(c *interp.Call) (any, error) {
				in := c.R.Handlers().Stdin
				if in == nil {
					return nil, nil
				}
				return readLine(in)
			}),
			static("Clear", func(*interp.Call) (any, error) { return interp.Void, nil }),
			static("Beep", func(*interp.Call) (any, error) { return interp.Void, nil }),
			static("ResetColor", func(*interp.Call) (any, error) { return interp.Void, nil }),
		}, Statics: []interp.Property{
			{Name: "OutputEncoding", Get: func(c *interp.Call) (any, error) { return encodingByName(c.R, "utf-8") },
				Set: func(*interp.Call, any) error {
					return nil
				}},
			{Name: "InputEncoding", Get: func(c *interp.Call) (any, error) { return encodingByName(c.R, "utf-8") },
				Set: func(*interp.Call, any) error {
					return nil
				}},
			ignored("Title", "Windows PowerShell"), ignored("ForegroundColor", "Gray"),
			ignored("BackgroundColor", "Black"), ignored("TreatControlCAsInput", false), ignored("CursorVisible", true),
			constant("IsOutputRedirected", true), constant("IsInputRedirected", true),
			constant("IsErrorRedirected", true), constant("KeyAvailable", false), constant("WindowWidth", int32(120)),
			constant("WindowHeight", int32(30)), constant("BufferWidth", int32(120)),
			computed("Out", func(c *interp.Call) (any, error) {
				return instance(c.R, "System.IO.StreamWriter", &writer{
					w:    bufio.NewWriter(hostWriter{c.R}),
					base: &stream{},
					auto: true,
					nl:   "\n",
				}, nil), nil
			}),
			computed("Error", func(c *interp.Call) (any, error) {
				return instance(c.R, "System.IO.StreamWriter", &writer{
					w:    bufio.NewWriter(c.R.Handlers().Stderr),
					base: &stream{},
					auto: true,
					nl:   c.R.Newline(),
				}, nil), nil
			}),
			computed("In", func(c *interp.Call) (any, error) {
				return instance(c.R, "System.IO.StreamReader",
					&reader{bufio.NewReader(c.R.Handlers().Stdin), &stream{}}, nil), nil
			}),
		}},
	}
}

type hostWriter struct{ r *interp.Runner }

func (w hostWriter) Write(b []byte) (int, error) { return len(b), w.r.Host(string(b)) }

// readLine reads one line byte by byte, since others may read on.
func readLine(in interface{ Read([]byte) (int, error) }) (any, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < value.MaxItems {
		n, err := in.Read(b)
		if n == 1 {
			if b[0] == '\n' {
				return strings.TrimSuffix(string(line), "\r"), nil
			}
			line = append(line, b[0])
		}
		if err != nil {
			if len(line) == 0 {
				return nil, nil
			}
			break
		}
	}
	return string(line), nil
}

// threadClasses returns the part of System.Threading that scripts use.
func threadClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.Threading.Thread", StaticMethods: []interp.Method{
			static("Sleep", func(c *interp.Call) (any, error) {
				d, ok := c.Arg(0).(value.TimeSpan)
				if !ok {
					ms, err := c.Int(0)
					if err != nil {
						return nil, err
					}
					d = value.TimeSpan(time.Duration(ms) * time.Millisecond)
					if ms == -1 {
						d = value.TimeSpan(1<<63 - 1)
					}
				}
				return interp.Void, Sleep(c.R, time.Duration(d))
			}),
		}, Statics: []interp.Property{
			computed("CurrentThread", func(*interp.Call) (any, error) {
				return value.NewObject("System.Threading.Thread", "ManagedThreadId", int32(1), "CurrentCulture",
					"en-US", "CurrentUICulture", "en-US", "Name", ""), nil
			}),
		}},
	}
}

// Sleep waits, or ends with the script's context.
func Sleep(r *interp.Runner, d time.Duration) error {
	f := r.Handlers().Sleep
	if f == nil {
		return interp.NotImplemented("waiting")
	}
	if err := f(r.Context(), d); err != nil {
		return interp.Abort(err)
	}
	return nil
}
