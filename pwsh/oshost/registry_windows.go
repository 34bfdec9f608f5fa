// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oshost

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/windows/registry"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

type winRegistry struct{}

func newRegistry() host.Registry { return winRegistry{} }

func split(path string) (registry.Key, string, error) {
	hive, rest, _ := strings.Cut(path, `\`)
	switch strings.ToUpper(hive) {
	case "HKLM":
		return registry.LOCAL_MACHINE, rest, nil
	case "HKCU":
		return registry.CURRENT_USER, rest, nil
	case "HKCR":
		return registry.CLASSES_ROOT, rest, nil
	case "HKU":
		return registry.USERS, rest, nil
	}
	return 0, "", fmt.Errorf("open key %s: unknown hive", path)
}

func open(path string, access uint32) (registry.Key, error) {
	root, rest, err := split(path)
	if err != nil {
		return 0, err
	}
	return registry.OpenKey(root, rest, access)
}

func (winRegistry) Exists(path string) bool {
	k, err := open(path, registry.QUERY_VALUE)
	if err != nil {
		return false
	}
	_ = k.Close() // best effort
	return true
}

func (winRegistry) Keys(path string) ([]string, error) {
	k, err := open(path, registry.READ)
	if err != nil {
		return nil, err
	}
	defer k.Close() // best effort
	return k.ReadSubKeyNames(-1)
}

func (winRegistry) Values(path string) ([]host.RegValue, error) {
	k, err := open(path, registry.READ)
	if err != nil {
		return nil, err
	}
	defer k.Close() // best effort
	names, err := k.ReadValueNames(-1)
	if err != nil {
		return nil, err
	}
	var out []host.RegValue
	for _, n := range names {
		if v, err := read(k, n); err == nil {
			out = append(out, v)
		}
	}
	return out, nil
}

func read(k registry.Key, name string) (host.RegValue, error) {
	_, typ, err := k.GetValue(name, nil)
	if err != nil && !errors.Is(err, registry.ErrShortBuffer) {
		return host.RegValue{}, err
	}
	v := host.RegValue{Name: name}
	switch typ {
	case registry.SZ:
		v.Kind = "String"
		v.Data, _, err = k.GetStringValue(name)
	case registry.EXPAND_SZ:
		v.Kind = "ExpandString"
		var s string
		if s, _, err = k.GetStringValue(name); err == nil {
			v.Data, err = registry.ExpandString(s)
		}
	case registry.MULTI_SZ:
		v.Kind = "MultiString"
		v.Data, _, err = k.GetStringsValue(name)
	case registry.DWORD:
		v.Kind = "DWord"
		var n uint64
		n, _, err = k.GetIntegerValue(name)
		v.Data = uint32(n)
	case registry.QWORD:
		v.Kind = "QWord"
		v.Data, _, err = k.GetIntegerValue(name)
	default:
		v.Kind = "Binary"
		v.Data, _, err = k.GetBinaryValue(name)
	}
	return v, err
}

func (winRegistry) CreateKey(path string) error {
	root, rest, err := split(path)
	if err != nil {
		return err
	}
	k, _, err := registry.CreateKey(root, rest, registry.ALL_ACCESS)
	if err != nil {
		return err
	}
	return k.Close()
}

func (winRegistry) DeleteKey(path string) error {
	root, rest, err := split(path)
	if err != nil {
		return err
	}
	return registry.DeleteKey(root, rest)
}

func (winRegistry) SetValue(path string, v host.RegValue) error {
	k, err := open(path, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer k.Close() // best effort
	switch x := v.Data.(type) {
	case string:
		if v.Kind == "ExpandString" {
			return k.SetExpandStringValue(v.Name, x)
		}
		return k.SetStringValue(v.Name, x)
	case []string:
		return k.SetStringsValue(v.Name, x)
	case uint32:
		return k.SetDWordValue(v.Name, x)
	case uint64:
		return k.SetQWordValue(v.Name, x)
	case []byte:
		return k.SetBinaryValue(v.Name, x)
	}
	return fmt.Errorf("set registry value %s: type %T", v.Name, v.Data)
}

func (winRegistry) DeleteValue(path, name string) error {
	k, err := open(path, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer k.Close() // best effort
	return k.DeleteValue(name)
}
