// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winver

import (
	"slices"
	"sync"
)

// All lists the releases, oldest first. The slice is the caller's own.
//
// Numbers, tags and dates: Microsoft's "Base image servicing lifecycles"
// (learn.microsoft.com/virtualization/windowscontainers/deploy-containers/base-image-lifecycle,
// read 2026-11; the semi-annual releases from the page's revisions of 2021-09
// and 2023-10) and github.com/microsoft/hcsshim/osversion/windowsbuilds.go.
//
// UBR is the revision of the last cumulative update of releases out of support
// and of October 2025 for the others, from Microsoft's update history pages of
// each release. Only its shape matters: no code compares it (see Compatible).
func All() []Build { return slices.Clone(table()) }

// table is made once: admission looks into it several times for each pod.
var table = sync.OnceValue(func() []Build {
	return []Build{
		{
			Number: 14393, UBR: 8519, Product: "Windows Server 2016", ProductName: "Windows Server 2016 Datacenter",
			Version: "1607", Branch: "rs1_release",
			Tags: []string{"ltsc2016", "sac2016"}, Aliases: []string{"2016", "windows2016", "rs1"}, LTSC: true,
			Available: "2016-10-15", MainstreamEnd: "2022-01-11", ExtendedEnd: "2027-01-11",
		},
		{
			Number: 16299, UBR: 1087, Product: "Windows Server, version 1709", ProductName: "Windows Server Datacenter",
			Version: "1709", Branch: "rs3_release", Tags: []string{"1709"}, Aliases: []string{"rs3"},
			Available: "2017-10-17", MainstreamEnd: "2019-04-09",
		},
		{
			Number: 17134, UBR: 1130, Product: "Windows Server, version 1803", ProductName: "Windows Server Datacenter",
			Version: "1803", Branch: "rs4_release", Tags: []string{"1803"}, Aliases: []string{"rs4"},
			Available: "2018-04-30", MainstreamEnd: "2019-11-12",
		},
		{
			Number: 17763, UBR: 7919, Product: "Windows Server 2019", ProductName: "Windows Server 2019 Datacenter",
			Version: "1809", Branch: "rs5_release",
			Tags: []string{"ltsc2019", "1809"}, Aliases: []string{"2019", "windows2019", "rs5"}, LTSC: true,
			Available: "2018-11-13", MainstreamEnd: "2024-01-09", ExtendedEnd: "2029-01-09",
		},
		{
			Number: 18362, UBR: 1256, Product: "Windows Server, version 1903", ProductName: "Windows Server Datacenter",
			Version: "1903", Branch: "19h1_release", Tags: []string{"1903"}, Aliases: []string{"19h1"},
			Available: "2019-05-21", MainstreamEnd: "2020-12-08",
		},
		{
			Number: 18363, UBR: 1556, Product: "Windows Server, version 1909", ProductName: "Windows Server Datacenter",
			Version: "1909", Branch: "19h1_release", Tags: []string{"1909"}, Aliases: []string{"19h2"},
			Available: "2019-11-12", MainstreamEnd: "2021-05-11",
		},
		{
			Number: 19041, UBR: 1415, Product: "Windows Server, version 2004", ProductName: "Windows Server Datacenter",
			Version: "2004", Branch: "vb_release", Tags: []string{"2004"}, Aliases: []string{"20h1"},
			Available: "2020-05-27", MainstreamEnd: "2021-12-14",
		},
		{
			Number: 19042, UBR: 1889, Product: "Windows Server, version 20H2", ProductName: "Windows Server Datacenter",
			Version: "20H2", Branch: "vb_release", Tags: []string{"20H2"},
			Available: "2020-10-20", MainstreamEnd: "2022-08-09",
		},
		{
			Number: 20348, UBR: 4294, Product: "Windows Server 2022", ProductName: "Windows Server 2022 Datacenter",
			Version: "21H2", Branch: "fe_release",
			Tags: []string{"ltsc2022"}, Aliases: []string{"2022", "windows2022"}, LTSC: true,
			Available: "2021-08-18", MainstreamEnd: "2026-10-13", ExtendedEnd: "2031-10-14",
		},
		{
			// The dates are inferred from Microsoft's announcements of the annual
			// channel; the lifecycle page lists images only, and it has no images.
			Number: 25398, UBR: 1913, Product: "Windows Server, version 23H2", ProductName: "Windows Server Datacenter",
			Version: "23H2", Branch: "zn_release", Aliases: []string{"windowsannual"}, HostOnly: true,
			Available: "2023-10-24", MainstreamEnd: "2025-10-24",
		},
		{
			Number: 26100, UBR: 6899, Product: "Windows Server 2025", ProductName: "Windows Server 2025 Datacenter",
			Version: "24H2", Branch: "ge_release",
			Tags: []string{"ltsc2025"}, Aliases: []string{"2025", "windows2025"}, LTSC: true,
			Available: "2024-11-01", MainstreamEnd: "2029-10-09", ExtendedEnd: "2034-10-10",
		},
	}
})
