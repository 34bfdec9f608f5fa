// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package host defines the interfaces through which a PowerShell session reaches
// programs, files, the network, the environment, the registry and the rest of the
// machine. A session has no other access. Package oshost implements them for the
// machine, package hosttest with tables for tests.
package host

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"time"
)

// Handlers perform every effect that a script can have. Where a handler is nil,
// the facility is absent, and a command that needs it reports an error.
type Handlers struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Console is nil without a terminal.
	Console Console

	// Exec runs a program and returns its exit code. An error means that the
	// program did not start.
	Exec func(ctx context.Context, p Process) (exit int, err error)
	// LookPath finds a program as the operating system does: through PATH, and on
	// Windows PATHEXT. dir is the current directory.
	LookPath func(name, dir string) (path string, ok bool)

	Files    FileSystem
	Net      Network
	Env      Environment
	System   System
	Registry Registry
	Security FileSecurity

	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Console is a terminal at which lines are typed.
type Console interface {
	// ReadLine reads a line, with its end. At Tab, complete returns the replacement of
	// the text to the left of the cursor; back: Shift was held.
	ReadLine(complete func(text string, back bool) string) (string, error)
	// Clear empties the screen.
	Clear() error
}

// FileSecurity reads and changes the security descriptors of files.
type FileSecurity interface {
	Security(name string) (Security, error)
	// SetSecurity sets the rules that are not inherited, and the owner if it has one.
	SetSecurity(name string, s Security) error
	// FindAccount finds an account by its name or its security identifier.
	FindAccount(name string) (Account, error)
}

// Account is a user or a group. The name is empty if it is unknown.
type Account struct{ SID, Name string }

// AccessRule is an entry of an access control list, with .NET's numbers.
type AccessRule struct {
	Account
	Deny        bool
	Rights      uint32
	Inheritance int // 1: directories inherit it; 2: files
	Propagation int // 1: not further than one step; 2: not for the directory itself
	Inherited   bool
}

// Security is a security descriptor.
type Security struct {
	Owner, Group Account
	Protected    bool // inherits no entries
	Rules        []AccessRule
}

// Process is a program to run.
type Process struct {
	Path  string
	Args  []string // without the program's own name
	Dir   string
	Stdin io.Reader // nil means that it is inherited
	// Stdout and Stderr are not nil.
	Stdout, Stderr io.Writer
	// do not wait for the program (Start-Process); its process id is returned instead of an exit code
	Detach bool
}

// File is an open file.
type File interface {
	io.ReadWriteSeeker
	io.Closer
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// FileSystem has the calls of package os. Paths are absolute.
type FileSystem interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	Symlink(target, name string) error
	Readlink(name string) (string, error)
	Chtimes(name string, access, modify time.Time) error
	TempDir() string
	// Drives lists the root directories, such as / or C:\.
	Drives() []string
}

// Adapter is a network interface.
type Adapter struct {
	Index       int
	Name        string
	Description string
	MAC         string // 00-15-5D-…
	Up          bool
	Loopback    bool
	MTU         int
	BitsPerSec  int64
	Addresses   []netip.Prefix
	Gateways    []netip.Addr
	DNS         []netip.Addr
	Suffix      string // of DNS
	DHCP        bool
}

// IPInterface is one protocol of an adapter.
type IPInterface struct {
	Index           int
	IPv6            bool
	MTU             int
	Metric          int
	AutomaticMetric bool
	Forwarding      bool
	WeakHostSend    bool
	WeakHostReceive bool
}

// IPInterfaceChange lists changes of an IPInterface; nil leaves a setting as it is.
type IPInterfaceChange struct {
	Index           int
	IPv6            bool
	Metric          *int
	AutomaticMetric *bool
	Forwarding      *bool
	WeakHostSend    *bool
	WeakHostReceive *bool
}

// Route is an entry of the routing table.
type Route struct {
	Interface   int
	Alias       string
	Destination netip.Prefix
	NextHop     netip.Addr // unspecified for a directly connected network
	Metric      int
	// Local: the system made it, not a program.
	Local bool
}

// Resolver looks up names.
type Resolver interface {
	LookupHost(ctx context.Context, name string) ([]netip.Addr, error)
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	LookupCNAME(ctx context.Context, name string) (string, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupSRV(ctx context.Context, name string) ([]*net.SRV, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupNS(ctx context.Context, name string) ([]*net.NS, error)
}

// Network connects a script with others, and describes the machine's network. As a
// Resolver it is the system's own.
type Network interface {
	Resolver
	// Server is the server of DNS with an address or a name. It takes every name for
	// a complete one.
	Server(server string) Resolver
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	Adapters(ctx context.Context) ([]Adapter, error)
	// Routes lists the table in rising order of the destinations.
	Routes(ctx context.Context) ([]Route, error)
	// AddRoute and the others fail with fs.ErrExist, fs.ErrNotExist and
	// fs.ErrPermission in the chain where that is the reason.
	AddRoute(ctx context.Context, r Route) error
	DeleteRoute(ctx context.Context, r Route) error
	IPInterfaces(ctx context.Context) ([]IPInterface, error)
	SetIPInterface(ctx context.Context, c IPInterfaceChange) error
}

// Environment is the process's environment.
type Environment interface {
	Get(name string) (string, bool)
	Set(name, value string) error
	Unset(name string) error
	List() []string // NAME=value
}

// ProcessInfo is a running process.
type ProcessInfo struct {
	ID, Parent int
	Name, Path string
	File       string // the name with its extension, as tasklist.exe shows it
	Started    time.Time
	CPU        time.Duration
	WorkingSet int64 // bytes
	Threads    int
}

// ServiceInfo is a Windows service.
type ServiceInfo struct {
	Name, DisplayName string
	Status            string // Running, Stopped, …
	StartType         string // Automatic, Manual, Disabled
}

// Identity is the content of a process's token: an account, its groups and
// privileges.
type Identity struct {
	Name       string // "User Manager\ContainerUser"
	SID        string
	Groups     []IdentityGroup
	Privileges []Privilege
}

// IdentityGroup is a group. The name is empty if it is unknown.
type IdentityGroup struct {
	SID, Name  string
	Type       string // "Alias", "Well-known group", "Label"; "" if unknown
	Attributes uint32 // SE_GROUP_* of winnt.h
}

// Privilege is a right of a token, such as SeBackupPrivilege.
type Privilege struct {
	Name    string
	Enabled bool
}

// System describes the machine and controls its processes and services.
type System interface {
	PID() int
	Hostname() string
	UserName() string
	// Identity returns the account that the process runs as.
	Identity() (Identity, error)
	// ConsoleSize returns the size of the window in characters. It reports false
	// if there is no window.
	ConsoleSize() (width, height int, ok bool)
	HomeDir() string
	OSVersion() string // 10.0.17763.0
	Processes(ctx context.Context) ([]ProcessInfo, error)
	Kill(ctx context.Context, pid int) error
	Services(ctx context.Context) ([]ServiceInfo, error)
	ControlService(ctx context.Context, name, verb string) error // verb: start, stop, restart
	ProcessorCount() int
	// Memory returns the total and the free physical memory in bytes.
	Memory() (total, free int64)
	BootTime() time.Time
}

// RegValue is a registry value. Data is a string, []string, uint32, uint64 or
// []byte.
type RegValue struct {
	Name string
	Kind string // String, ExpandString, MultiString, DWord, QWord, Binary
	Data any
}

// Registry is the Windows registry. A path begins with the short name of a hive,
// as in HKLM\SOFTWARE.
type Registry interface {
	Keys(path string) ([]string, error)
	Values(path string) ([]RegValue, error)
	Exists(path string) bool
	CreateKey(path string) error
	DeleteKey(path string) error
	SetValue(path string, v RegValue) error
	DeleteValue(path, name string) error
}
