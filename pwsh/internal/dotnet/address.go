// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sort"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// NetIPSwitch is the type of the on/off properties of Get-NetIPInterface.
// ConvertTo-Json writes its number, which flannel reads.
const NetIPSwitch = "Microsoft.PowerShell.Cmdletization.GeneratedTypes.NetIPInterface.Forwarding"

// address is System.Net.IPAddress; equal ones are equal as keys.
type address struct{ netip.Addr }

// TypeName returns the .NET name.
func (address) TypeName() string { return "System.Net.IPAddress" }

// Text returns the usual notation.
func (a address) Text() string { return a.String() }

// HashKey makes equal addresses one key.
func (a address) HashKey() any { return a.Addr }

// endPoint is System.Net.IPEndPoint.
type endPoint struct{ netip.AddrPort }

// TypeName returns the .NET name.
func (endPoint) TypeName() string { return "System.Net.IPEndPoint" }

// Text is address:port.
func (e endPoint) Text() string { return e.String() }

// HashKey makes equal end points one key.
func (e endPoint) HashKey() any { return e.AddrPort }

func newEndPoint(_ *interp.Runner, hostPort string) (any, error) {
	ap, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return nil, nil
	}
	return endPoint{netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())}, nil
}

func parseAddress(s string) (any, error) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return nil, interp.Failf("System.FormatException", "FormatException", "InvalidArgument", s,
			"An invalid IP address was specified.")
	}
	return address{a}, nil
}

// uri is System.Uri.
type uri struct {
	u    *url.URL
	text string
}

func newURI(r *interp.Runner, s string) (any, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return nil, interp.Failf("System.UriFormatException", "UriFormatException", "InvalidArgument", s,
			"Invalid URI: The format of the URI could not be determined.")
	}
	u.Host = strings.ToLower(u.Host)
	x := &uri{u: u, text: s}
	return instance(r, "System.Uri", x, x.String), nil
}

// String returns the address with a path, and without a default port.
func (x *uri) String() string {
	if !x.u.IsAbs() {
		return x.text
	}
	u := *x.u
	if u.Path == "" && u.Host != "" {
		u.Path = "/"
	}
	if p := u.Port(); p != "" && p == defaultPort(u.Scheme) {
		u.Host = strings.TrimSuffix(u.Host, ":"+p)
	}
	s := u.String()
	if dec, err := url.PathUnescape(s); err == nil && !strings.ContainsAny(dec, " \n\r\t") {
		return dec
	}
	return s
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	case "ftp":
		return "21"
	}
	return ""
}

func (x *uri) port() int {
	p := x.u.Port()
	if p == "" {
		p = defaultPort(x.u.Scheme)
	}
	n, err := strconv.Atoi(p)
	if err != nil {
		return -1
	}
	return n
}

// Length: one table; splitting hides which names belong together.
func addressClasses() []*interp.Class {
	any4 := address{netip.IPv4Unspecified()}
	return []*interp.Class{
		{Name: "System.Net.IPAddress", Cast: func(_ *interp.Runner, v any) (any, error) {
			a, err := parseAddress(value.String(v))
			if err != nil {
				err = &value.ConvertError{From: v, To: "System.Net.IPAddress", Why: err.Error()}
			}
			return a, err
		},
			New: func(c *interp.Call) (any, error) {
				b, err := value.Bytes(c.Arg(0))
				if err != nil {
					return nil, err
				}
				a, ok := netip.AddrFromSlice(b)
				if !ok {
					return nil, argError("An invalid IP address was specified.")
				}
				return address{a}, nil
			},
			Props: []interp.Property{
				get("IPAddressToString", func(a address) any { return a.String() }),
				getErr("AddressFamily",
					func(c *interp.Call, a address) (any, error) { return family(c.R, a.Addr), nil }),
				get("IsIPv6LinkLocal", func(a address) any { return a.Is6() && a.IsLinkLocalUnicast() }),
				get("IsIPv4MappedToIPv6", func(a address) any { return a.Is4In6() }),
				get("ScopeId", func(a address) any { n, _ := strconv.ParseInt(a.Zone(), 10, 64); return n }),
				get("Address", func(a address) any {
					if !a.Is4() {
						return nil
					}
					b := a.As4()
					return int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16 | int64(b[3])<<24
				}),
			}, Methods: []interp.Method{
				method("GetAddressBytes", func(_ *interp.Call, a address) (any, error) {
					return value.NewBytes(a.AsSlice()), nil
				}),
				method("MapToIPv4", func(_ *interp.Call, a address) (any, error) { return address{a.Unmap()}, nil }),
			}, StaticMethods: []interp.Method{
				static("Parse", func(c *interp.Call) (any, error) { return parseAddress(c.Str(0)) }),
				static("IsLoopback", func(c *interp.Call) (any, error) {
					a, err := c.R.ConvertTo(c.Arg(0), "System.Net.IPAddress")
					if err != nil {
						return nil, err
					}
					return a.(address).IsLoopback(), nil
				}),
			}, Statics: []interp.Property{
				constant("Any", any4), constant("Loopback", address{netip.AddrFrom4([4]byte{127, 0, 0, 1})}),
				constant("Broadcast", address{netip.AddrFrom4([4]byte{255, 255, 255, 255})}),
				constant("None", address{netip.AddrFrom4([4]byte{255, 255, 255, 255})}),
				constant("IPv6Any", address{netip.IPv6Unspecified()}),
				constant("IPv6Loopback", address{netip.IPv6Loopback()}),
			}},
		{Name: "System.Net.IPEndPoint", New: func(c *interp.Call) (any, error) {
			a, err := c.R.ConvertTo(c.Arg(0), "System.Net.IPAddress")
			if err != nil {
				return nil, err
			}
			p, err := value.Int(c.Arg(1), "System.UInt16")
			if err != nil {
				return nil, err
			}
			return endPoint{netip.AddrPortFrom(a.(address).Addr, p.(uint16))}, nil
		}, Props: []interp.Property{
			get("Address", func(e endPoint) any { return address{e.Addr()} }),
			get("Port", func(e endPoint) any { return i32(int(e.Port())) }),
			getErr("AddressFamily",
				func(c *interp.Call, e endPoint) (any, error) { return family(c.R, e.Addr()), nil }),
		}},
		numbered("System.Net.Sockets.AddressFamily", false, member("Unspecified", 0), member("InterNetwork", 2),
			member("InterNetworkV6", 23), member("Unix", 1)),
		enum(NetIPSwitch, "Disabled", "Enabled"),
		{Name: "System.Uri", Cast: func(r *interp.Runner, v any) (any, error) { return newURI(r, value.String(v)) },
			New: func(c *interp.Call) (any, error) {
				if c.N() == 2 {
					base, ok := data[*uri](c.Arg(0))
					if !ok {
						b, err := newURI(c.R, c.Str(0))
						if err != nil {
							return nil, err
						}
						base, _ = data[*uri](b)
					}
					ref, err := base.u.Parse(c.Str(1))
					if err != nil {
						return nil, argError("Invalid URI.")
					}
					return newURI(c.R, ref.String())
				}
				x, err := newURI(c.R, c.Str(0))
				if err == nil {
					if u, _ := data[*uri](x); !u.u.IsAbs() {
						return nil, interp.Failf("System.UriFormatException", "UriFormatException", "InvalidArgument",
							c.Str(0), "Invalid URI: The format of the URI could not be determined.")
					}
				}
				return x, err
			},
			Props: []interp.Property{
				get("AbsolutePath", func(x *uri) any {
					if p := x.u.EscapedPath(); p != "" {
						return p
					}
					return "/"
				}),
				get("AbsoluteUri", func(x *uri) any {
					u := *x.u
					if u.Path == "" {
						u.Path = "/"
					}
					return u.String()
				}),
				get("LocalPath", func(x *uri) any {
					if x.u.Path == "" {
						return "/"
					}
					return x.u.Path
				}),
				get("Authority", func(x *uri) any {
					if p := x.u.Port(); p != "" && p == defaultPort(x.u.Scheme) {
						return x.u.Hostname()
					}
					return x.u.Host
				}),
				get("Host", func(x *uri) any { return x.u.Hostname() }),
				get("DnsSafeHost", func(x *uri) any { return x.u.Hostname() }),
				get("Port", func(x *uri) any { return i32(x.port()) }),
				get("IsDefaultPort", func(x *uri) any { return strconv.Itoa(x.port()) == defaultPort(x.u.Scheme) }),
				get("PathAndQuery", func(x *uri) any { return x.u.RequestURI() }),
				get("Query", func(x *uri) any {
					if x.u.RawQuery == "" {
						return ""
					}
					return "?" + x.u.RawQuery
				}),
				get("Fragment", func(x *uri) any {
					if x.u.Fragment == "" {
						return ""
					}
					return "#" + x.u.EscapedFragment()
				}),
				get("Scheme", func(x *uri) any { return x.u.Scheme }),
				get("OriginalString", func(x *uri) any { return x.text }),
				get("UserInfo", func(x *uri) any { return x.u.User.String() }),
				get("IsAbsoluteUri", func(x *uri) any { return x.u.IsAbs() }),
				get("IsLoopback", func(x *uri) any {
					ip := net.ParseIP(x.u.Hostname())
					return x.u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
				}),
				get("Segments", func(x *uri) any {
					var segs []string
					rest := x.u.EscapedPath()
					for rest != "" {
						i := strings.IndexByte(rest, '/')
						if i < 0 {
							i = len(rest) - 1
						}
						segs = append(segs, rest[:i+1])
						rest = rest[i+1:]
					}
					return value.NewStrings(segs)
				}),
			}, StaticMethods: []interp.Method{
				static("EscapeDataString", func(c *interp.Call) (any, error) {
					return strings.ReplaceAll(url.QueryEscape(c.Str(0)), "+", "%20"), nil
				}),
				static("EscapeUriString", func(c *interp.Call) (any, error) {
					return (&url.URL{Path: c.Str(0)}).EscapedPath(), nil
				}),
				static("UnescapeDataString", func(c *interp.Call) (any, error) {
					s, err := url.PathUnescape(c.Str(0))
					if err != nil {
						return c.Str(0), nil
					}
					return s, nil
				}),
			}},
		headerClass("System.Net.WebHeaderCollection"),
		headerClass("System.Collections.Specialized.NameValueCollection"),
		{Name: "System.Net.Dns", StaticMethods: []interp.Method{
			static("GetHostName", func(c *interp.Call) (any, error) {
				if s := c.R.Handlers().System; s != nil {
					return s.Hostname(), nil
				}
				return nil, interp.NotImplemented("the host name")
			}),
			static("GetHostAddresses", func(c *interp.Call) (any, error) {
				list, err := hostAddresses(c, c.Str(0))
				return &value.Array{Items: list, Elem: "Net.IPAddress"}, err
			}),
			static("GetHostEntry", hostEntry), static("GetHostByName", hostEntry), static("Resolve", hostEntry),
		}},
	}
}

func family(r *interp.Runner, a netip.Addr) any {
	k := r.Class("System.Net.Sockets.AddressFamily")
	if a.Is4() {
		return interp.EnumValue{Class: k, N: 2}
	}
	return interp.EnumValue{Class: k, N: 23}
}

func hostAddresses(c *interp.Call, name string) ([]any, error) {
	n := c.R.Handlers().Net
	if n == nil {
		return nil, interp.NotImplemented("the network")
	}
	if name == "" && c.R.Handlers().System != nil {
		name = c.R.Handlers().System.Hostname()
	}
	list, err := n.LookupHost(c.R.Context(), name)
	if err != nil {
		return nil, socketError(11001, "No such host is known")
	}
	out := make([]any, len(list))
	for i, a := range list {
		out[i] = address{a.Unmap()}
	}
	return out, nil
}

func hostEntry(c *interp.Call) (any, error) {
	list, err := hostAddresses(c, c.Str(0))
	if err != nil {
		return nil, err
	}
	return value.NewObject("System.Net.IPHostEntry", "HostName", c.Str(0), "Aliases", value.NewStrings(nil),
		"AddressList", &value.Array{Items: list, Elem: "Net.IPAddress"}), nil
}

func headerClass(name string) *interp.Class {
	one := func(h http.Header, k string) any {
		for n, v := range h {
			if strings.EqualFold(n, k) {
				return strings.Join(v, ",")
			}
		}
		return nil
	}
	item := func(c *interp.Call, h http.Header) (any, error) {
		if n, ok := c.Arg(0).(int32); ok {
			keys := headerKeys(h)
			if n < 0 || int(n) >= len(keys) {
				return nil, argError("Index was out of range. Must be non-negative and less than the size of the " +
					"collection.")
			}
			return one(h, keys[n]), nil
		}
		return one(h, c.Str(0)), nil
	}
	// key is the name under which a header is stored: case does not matter, and
	// the first spelling stays.
	key := func(h http.Header, k string) string {
		for n := range h {
			if strings.EqualFold(n, k) {
				return n
			}
		}
		return k
	}
	set := func(c *interp.Call, h http.Header) (any, error) {
		h[key(h, c.Str(0))] = []string{c.Str(1)}
		return interp.Void, nil
	}
	return &interp.Class{
		Name: name,
		New:  func(c *interp.Call) (any, error) { return instance(c.R, name, http.Header{}, nil), nil },
		Props: []interp.Property{
			get("Count", func(h http.Header) any { return i32(len(h)) }),
			get("AllKeys", func(h http.Header) any { return value.NewStrings(headerKeys(h)) }),
			get("Keys", func(h http.Header) any { return value.NewStrings(headerKeys(h)) }),
		},
		Methods: []interp.Method{
			method("Get", item), method("Get_Item", item), method("Item", item), method("Set", set),
			method("Set_Item", set), method("Add", func(c *interp.Call, h http.Header) (any, error) {
				k, v := c.Str(0), c.Str(1)
				if c.N() == 1 {
					k, v, _ = strings.Cut(k, ":")
				}
				k = key(h, k)
				h[k] = append(h[k], strings.TrimSpace(v))
				return interp.Void, nil
			}),
			method("Remove", func(c *interp.Call, h http.Header) (any, error) {
				delete(h, key(h, c.Str(0)))
				return interp.Void, nil
			}),
			method("GetValues", func(c *interp.Call, h http.Header) (any, error) {
				return value.NewStrings(h[key(h, c.Str(0))]), nil
			}),
		},
	}
}

func headerKeys(h http.Header) []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
