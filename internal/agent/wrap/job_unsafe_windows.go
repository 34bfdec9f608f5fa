// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wrap

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// dieTogether puts this process into a job that ends all its processes when
// the last handle to it is closed, which the system does when we die. Children
// are in the job from their first instruction on.
func dieTogether() error {
	job, err := windows.CreateJobObject(nil, nil) // never closed on purpose
	if err != nil {
		return err
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return err
	}
	return windows.AssignProcessToJobObject(job, windows.CurrentProcess())
}
