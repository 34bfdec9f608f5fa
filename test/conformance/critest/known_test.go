// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package critest

// skipped are specs that cannot run here, with the reason; their names are
// those in ginkgo's report. docs/fidelity/cri.md repeats them.
func skipped() map[string]string {
	return map[string]string{}
}

// failing are specs that are known to fail, with the reason.
func failing() map[string]string {
	return map[string]string{
		"runtime should support attach [Conformance]": `expects the prompt "C:\>" after the output; attach passes ` +
			`the output, but Wine's cmd.exe shows no prompt after /Q`,
		"runtime should support port mapping with host port and container port [Conformance]": "asks for the host " +
			"port at 127.0.0.1; as on Windows, port mappings are policies of the virtual switch, which loopback " +
			"traffic " +
			"never passes",
	}
}
