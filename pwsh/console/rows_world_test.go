// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

var textRows = []row{
	{name: "set and get", script: "Set-Content f.txt 'a','b'; Get-Content f.txt; (Get-Content f.txt -Raw).Length; (gc f.txt)[0]", want: "a\nb\n4\na\n"},
	{name: "add", script: "'x' | Set-Content f.txt; Add-Content f.txt 'y'; 'z' | Add-Content f.txt; (Get-Content f.txt) -join ','", want: "x,y,z\n"},
	{name: "no newline", script: "Set-Content f.txt 'a' -NoNewline; Get-Content f.txt -Raw; (Get-Item f.txt).Length", want: "a\n1\n"},
	{name: "head and tail", script: "1..10 | Set-Content f.txt; (gc f.txt -TotalCount 2) -join ','; (gc f.txt -Tail 2) -join ','; (gc f.txt -First 1)", want: "1,2\n9,10\n1\n"},
	{name: "missing file", script: "try { Get-Content nope.txt -ErrorAction Stop } catch { $_.CategoryInfo.Category; $_.Exception.GetType().Name }; gc nope -ErrorAction SilentlyContinue; $?", want: "ObjectNotFound\nItemNotFoundException\nFalse\n"},
	{name: "out-file", script: "'one' | Out-File o.txt; 'two' | Out-File o.txt -Append -Encoding utf8; gc o.txt; try { 'x' | Out-File o.txt -NoClobber -ErrorAction Stop } catch { 'exists' }", want: "one\ntwo\nexists\n"},
	{name: "bytes", script: "Set-Content b.bin ([byte[]](65,66)) -Encoding Byte; (Get-Content b.bin -Encoding Byte) -join ','", want: "65,66\n"},
	{name: "unicode", script: "'é' | Out-File u.txt -Encoding Unicode; Get-Content u.txt; (Get-Item u.txt).Length", want: "é\n6\n"},
	{name: "clear", script: "'x' > f.txt; Clear-Content f.txt; (Get-Item f.txt).Length", want: "0\n"},
	{name: "wildcards", script: "'1' > a.log; '2' > b.log; (Get-Content *.log) -join ','", want: "1,2\n"},
	{name: "string data", script: "(ConvertFrom-StringData \"a=1`nb = 2\").b", want: "2\n"},
	{name: "search files", script: "'foo','bar' > s.txt; Select-String -Path s.txt -Pattern 'ba' | % { \"$($_.LineNumber):$($_.Line)\" }", want: "2:bar\n"},
}

var fileRows = []row{
	{name: "new directory", script: "$d=New-Item -ItemType Directory -Path a/b; $d.Name; Test-Path a/b -PathType Container; mkdir c -ErrorAction SilentlyContinue | Out-Null; Test-Path a/b -PathType Leaf", want: "b\nTrue\nFalse\n"},
	{name: "new file", script: "$f=New-Item x.txt -ItemType File -Value 'v'; $f.Length; gc x.txt; try { New-Item x.txt -ErrorAction Stop } catch { 'exists' }; ni x.txt -Force | Out-Null; (gi x.txt).Length", want: "1\nv\nexists\n0\n"},
	{name: "test-path", script: "Test-Path .; Test-Path nope; Test-Path nope,.; Test-Path ''", want: "True\nFalse\nFalse\nTrue\nFalse\n"},
	{name: "remove", script: "'x' > r.txt; Remove-Item r.txt; Test-Path r.txt; ni -ItemType Directory d | Out-Null; 'y' > d/y; rm -Recurse -Force d; Test-Path d; Remove-Item nope -ErrorAction SilentlyContinue; $?", want: "False\nFalse\nFalse\n"},
	{name: "copy and move", script: "'x' > a.txt; Copy-Item a.txt b.txt; gc b.txt; Move-Item b.txt c.txt; Test-Path b.txt; gc c.txt; Rename-Item c.txt d.txt; gc d.txt", want: "x\nFalse\nx\nx\n"},
	{name: "copy tree", script: "ni -ItemType Directory s/t | Out-Null; '1' > s/t/f; cp -Recurse s u; gc u/t/f", want: "1\n"},
	{name: "list", script: "'1' > b.txt; '2' > a.log; ni -ItemType Directory z | Out-Null; (dir).Name -join ','; (gci -Filter *.txt).Name; (ls -File).Count; (gci -Directory).Name; gci *.log -Name", want: "z,a.log,b.txt\nb.txt\n2\nz\na.log\n"},
	{name: "recurse", script: "ni -ItemType Directory p/q | Out-Null; '1' > p/q/f.txt; (gci -Recurse -File).Name; (gci -Recurse -Name) -join ','", want: "f.txt\np,p/q,p/q/f.txt\n"},
	{name: "paths", script: "Join-Path a b; Join-Path a/ b; Split-Path a/b/c; Split-Path a/b/c.txt -Leaf; Split-Path C:\\x\\y -Qualifier; (Resolve-Path .).Path -eq (Get-Location).Path", want: "a/b\na/b\na/b\nc.txt\nC:\nTrue\n"},
	{name: "location", script: "ni -ItemType Directory w | Out-Null; cd w; Split-Path (pwd).Path -Leaf; cd ..; pushd w; popd; Split-Path $PWD -Leaf | % { $_ -eq 'w' }; try { cd nope -ErrorAction Stop } catch { 'no' }", want: "w\nFalse\nno\n"},
	{name: "item properties", script: "'abc' > i.txt; $i=Get-Item i.txt; $i.Name; $i.BaseName; $i.Extension; $i.PSIsContainer; $i.GetType; (Get-ItemProperty i.txt).Length", want: "i.txt\ni\n.txt\nFalse\n4\n"},
	{name: "environment", script: "(Get-ChildItem env:POD_NAME).Value; Get-Content env:POD_NAME; (gci env: | ? Name -eq POD_NAME).Value; Remove-Item env:POD_NAME; $env:POD_NAME -eq $null; Set-Item env:NEW 1; $env:NEW", want: "web-0\nweb-0\nweb-0\nTrue\n1\n"},
	{name: "file hash", script: "[IO.File]::WriteAllText('h','abc'); (Get-FileHash h).Hash.Substring(0,8); (Get-FileHash h -Algorithm MD5).Hash.Substring(0,8)", want: "BA7816BF\n90015098\n"},
	{name: "registry", script: "Test-Path HKLM:\\SOFTWARE\\Acme; (Get-ItemProperty HKLM:\\SOFTWARE\\Acme).Version; Get-ItemPropertyValue HKLM:\\SOFTWARE\\Acme Version; New-Item HKLM:\\SOFTWARE\\New | Out-Null; Set-ItemProperty HKLM:\\SOFTWARE\\New Count 5; (gp HKLM:\\SOFTWARE\\New).Count; (gci HKLM:\\SOFTWARE).Count; Remove-Item HKLM:\\SOFTWARE\\New; Test-Path HKLM:\\SOFTWARE\\New; try { gp HKLM:\\SOFTWARE\\Acme -Name Nope -ErrorAction Stop } catch { 'none' }", want: "True\n1.2\n1.2\n5\n2\nFalse\nnone\n"},
	{name: "what if", script: "'x' > w.txt; Remove-Item w.txt -WhatIf; Test-Path w.txt", want: "What if: Performing the operation \"Remove File\" on target \"{{}}w.txt\".\nTrue\n"},
	{name: "error of a missing item", script: "Get-Item nope", want: "!\nGet-Item : Cannot find path '{{}}nope' because it does not exist.\nAt line:1 char:1\n+ Get-Item nope\n+ ~~~~~~~~~~~~~\n    + CategoryInfo          : ObjectNotFound: ({{}}:String) [Get-Item], ItemNotFoundException\n    + FullyQualifiedErrorId : PathNotFound,Microsoft.PowerShell.Commands.GetItemCommand\n \n"},
	{name: "temporary file", script: "$t=New-TemporaryFile; Test-Path $t.FullName; Remove-Item $t.FullName", want: "True\n"},
	{name: "script file", script: "'param($a) \"got $a\"; exit 4' > s.ps1; ./s.ps1 7; $LASTEXITCODE; '$v=1' > d.ps1; . ./d.ps1; $v", want: "got 7\n4\n1\n"},
}

var netRows = []row{
	{name: "adapters", script: "(Get-NetAdapter).Name; (Get-NetAdapter).Status; (Get-NetAdapter -Name vEth*).ifIndex; (Get-NetAdapter).MacAddress", want: "vEthernet (Ethernet)\nUp\n4\n00-15-5D-00-04-01\n"},
	{name: "the guide's address", script: "$ip=(Get-NetAdapter | Get-NetIpAddress); $ip[1].IPAddress; $ip[0].IPAddress", want: "10.244.1.7\nfe80::215:5dff:fe00:401%4\n"},
	{name: "ip addresses", script: "(Get-NetIPAddress -AddressFamily IPv4).IPAddress -join ','; (Get-NetIPAddress -InterfaceIndex 4 -AddressFamily IPv4).PrefixLength; (Get-NetIPAddress | ? { $_.IPAddress -like '10.*' }).InterfaceAlias", want: "127.0.0.1,10.244.1.7\n24\nvEthernet (Ethernet)\n"},
	{name: "ip configuration", script: "$c=Get-NetIPConfiguration; $c.IPv4Address.IPAddress; $c.IPv4DefaultGateway.NextHop; $c.DNSServer.ServerAddresses", want: "10.244.1.7\n10.244.1.1\n10.96.0.10\n"},
	{name: "name servers", script: "(Get-DnsClientServerAddress -AddressFamily IPv4 | ? InterfaceIndex -eq 4).ServerAddresses", want: "10.96.0.10\n"},
	{name: "resolve", script: "(Resolve-DnsName kubernetes.default.svc.cluster.local).IPAddress; (Resolve-DnsName kubernetes.default.svc.cluster.local -Type A).Type; try { Resolve-DnsName nope.local -ErrorAction Stop } catch { $_.Exception.Message }", want: "10.96.0.1\nA\nnope.local : DNS name does not exist\n"},
	{name: "flannel interface", script: `$ErrorActionPreference="Stop";try { ConvertTo-Json (Get-NetRoute | Where { $_.DestinationPrefix -eq '0.0.0.0/0' } | Select-Object -Property ifIndex) } catch { Write-Host $_; os.Exit(-1) }`, want: "{\n    \"ifIndex\":  4\n}\n"},
	{name: "flannel list", script: `ConvertTo-Json (@(Get-NetRoute | Select-Object -Property IfIndex,DestinationPrefix,NextHop)) -Compress`, want: "[{\"ifIndex\":4,\"DestinationPrefix\":\"0.0.0.0/0\",\"NextHop\":\"10.244.1.1\"}]\n"},
	{name: "flannel routes", script: `New-NetRoute -InterfaceIndex 4 -DestinationPrefix 10.244.2.0/24 -NextHop  10.89.0.12 | Out-Null
(Get-NetRoute -InterfaceIndex 4 -DestinationPrefix 10.244.2.0/24).NextHop
$ErrorActionPreference="Stop";try { Remove-NetRoute -InterfaceIndex 4 -DestinationPrefix 10.244.2.0/24 -NextHop 10.89.0.12 -Verbose -Confirm:$false } catch { Write-Host $_ }
@(Get-NetRoute -DestinationPrefix 10.244.2.0/24 -ErrorAction SilentlyContinue).Count`, want: "10.89.0.12\nVERBOSE: Performing the operation \"Remove\" on target \"NetRoute -DestinationPrefix 10.244.2.0/24 -InterfaceIndex 4 -NextHop 10.89.0.12\".\n0\n"},
	{name: "flannel forwarding", script: "Set-NetIPInterface -ifIndex 4 -AddressFamily IPv4 -Forwarding Enabled; (Get-NetIPInterface -InterfaceIndex 4 -AddressFamily IPv4).Forwarding; try { Set-NetIPInterface -ifIndex 99 -Forwarding Enabled -ErrorAction Stop } catch { 'none' }", want: "Enabled\nnone\n"},
	{name: "duplicate route", script: "New-NetRoute -InterfaceIndex 4 -DestinationPrefix 0.0.0.0/0 -NextHop 10.244.1.1 -ErrorAction SilentlyContinue; $?", want: "False\n"},
	{name: "connection refused", script: "try { (New-Object System.Net.Sockets.TcpClient).Connect('127.0.0.1',1) } catch { $_.Exception.InnerException.GetType().Name; $_.Exception.InnerException.ErrorCode }; (Test-NetConnection 127.0.0.1 -Port 1 -WarningAction SilentlyContinue).TcpTestSucceeded", want: "SocketException\n10061\nFalse\n"},
	{name: "web request refused", script: "try { Invoke-WebRequest http://127.0.0.1:1/ -UseBasicParsing } catch { $_.Exception.Message; $_.Exception.GetType().Name }", want: "Unable to connect to the remote server\nWebException\n"},
}

var viewRows = []row{
	{name: "table", script: "[pscustomobject]@{Name='a';Value=1},[pscustomobject]@{Name='bbb';Value=22}", want: "\nName Value\n---- -----\na        1\nbbb     22\n\n\n"},
	{name: "list", script: "[pscustomobject]@{a=1;b=2;c=3;d=4;eee=5}", want: "\n\na   : 1\nb   : 2\nc   : 3\nd   : 4\neee : 5\n\n\n\n"},
	{name: "hashtable", script: "[ordered]@{a=1;b='x'}", want: "\nName                           Value\n----                           -----\na                              1\nb                              x\n\n\n"},
	{name: "format-table", script: "[pscustomobject]@{a=1;b=2;c=3} | ft a,c; [pscustomobject]@{a=1} | ft -HideTableHeaders; [pscustomobject]@{a=1.234} | ft @{n='A';e={$_.a};f='N1'}", want: "\na c\n- -\n1 3\n\n\n1\n\n\n\n  A\n  -\n1.2\n\n\n"},
	{name: "format-list", script: "[pscustomobject]@{a=1;b=2} | fl; [pscustomobject]@{aa=1;b=2} | Format-List -Property aa", want: "\n\na : 1\nb : 2\n\n\n\n\n\naa : 1\n\n\n\n"},
	{name: "arrays in cells", script: "[pscustomobject]@{l=1,2,3,4,5;n=$null}", want: "\nl               n\n-               -\n{1, 2, 3, 4...}\n\n\n"},
	{name: "mixed output", script: "1; 'x'; [pscustomobject]@{a=1}; 'y'", want: "1\nx\n\na\n-\n1\n\n\ny\n"},
	{name: "date", script: "[datetime]'2020-01-02 03:04:05'", want: "\nThursday, January 2, 2020 3:04:05 AM\n\n"},
	{name: "nested object", script: "[pscustomobject]@{a=@{x=1};b=[pscustomobject]@{c=2}}", want: "\na        b\n-        -\n{[x, 1]} @{c=2}\n\n\n"},
	{name: "long line is cut", script: "[pscustomobject]@{a='x'*200} | Out-String -Width 20 | % { ($_ -split \"`n\")[3].Length }", want: "19\n"},
	{name: "timespan", script: "(New-TimeSpan -Seconds 61) | fl Minutes,Seconds", want: "\n\nMinutes : 1\nSeconds : 1\n\n\n\n"},
	{name: "empty results", script: "@(); @{}; ''; $null", want: "\n"},
	{name: "bool and type", script: "$true; [int]", want: "True\nint\n"},
}

var coreRows = []row{
	{name: "ternary", script: "$true ? 'a' : 'b'; (1 -gt 2) ? 1 : 2", want: "a\n2\n", core: true},
	{name: "null coalescing", script: "$null ?? 'd'; 'x' ?? 'd'; $q ??= 5; $q; $q ??= 6; $q", want: "d\nx\n5\n5\n", core: true},
	{name: "null conditional", script: "$n=$null; ${n}?.Length -eq $null; ${n}?[0] -eq $null", want: "True\nTrue\n", core: true},
	{name: "chains", script: "Write-Output a && Write-Output b; Get-Item nope 2>$null || Write-Output c; sh -c 'exit 1' && 'no'", want: "a\nb\nc\n", core: true},
	{name: "pipe at line start", script: "1,2\n| % { $_ * 2 }", want: "2\n4\n", core: true},
	{name: "version", script: "$PSVersionTable.PSVersion.Major; $PSEdition; $IsWindows", want: "7\nCore\nTrue\n", core: true},
	{name: "replace with a block", script: "'a1b2' -replace '\\d', { [int]$_.Value * 10 }", want: "a10b20\n", core: true},
	{name: "concise error", script: "Get-Item nope; throw 'x'", want: "!\nGet-Item: Cannot find path '{{}}nope' because it does not exist.\nx\n", core: true},
	{name: "json", script: "[ordered]@{a=1;b=@(1)} | ConvertTo-Json; ('[1,2]' | ConvertFrom-Json | measure).Count", want: "{\n  \"a\": 1,\n  \"b\": [\n    1\n  ]\n}\n2\n", core: true},
	{name: "character range", script: "('a'..'c') -join ''", want: "abc\n", core: true},
	{name: "from json as hashtable", script: "('{\"a\":1}' | ConvertFrom-Json -AsHashtable)['a']", want: "1\n", core: true},
}

// refusedRows are constructs outside of the subset: each names itself.
var refusedRows = []row{
	{name: "class", script: "class A {}", want: "!\n{{}}The statement 'class' is not supported by mullion's PowerShell. See docs/fidelity/pwsh.md.\n{{}}StatementNotSupported{{}}"},
	{name: "chain in 5.1", script: "1 && 2", want: "!\n{{}}The token '&&' is not a valid statement separator in this version.\n{{}}InvalidEndOfLine{{}}"},
	{name: "ternary in 5.1", script: "$true ? 1 : 2", want: "!\n{{}}Unexpected token '?' in expression or statement.\n{{}}"},
	{name: "unknown type", script: "[Foo.Bar]::Baz()", want: "!\nUnable to find type [Foo.Bar]. Types that mullion's PowerShell knows are listed in docs/fidelity/pwsh.md.\n{{}}TypeNotFound{{}}"},
	{name: "unknown cmdlet", script: "Get-Unicorn", want: "!\nThe term 'Get-Unicorn' is not recognized {{}} If it is a cmdlet of Windows PowerShell, mullion's PowerShell does not have it: see docs/fidelity/pwsh.md.\n{{}}CommandNotFoundException{{}}"},
	{name: "look-ahead", script: "'x' -match '(?=y)'", want: "!\n{{}}look-ahead) is not supported by mullion's PowerShell. See docs/fidelity/pwsh.md.\n{{}}"},
	{name: "com", script: "New-Object -ComObject X", want: "!\nNew-Object : New-Object -ComObject X is not supported by mullion's PowerShell. See docs/fidelity/pwsh.md.\n{{}}NotSupportedByMullion{{}}"},
	{name: "parallel", script: "1 | ForEach-Object -Parallel { 1 }", want: "!\n{{}}ForEach-Object -Parallel is not supported{{}}"},
	{name: "unknown parameter", script: "Get-Item . -Bogus", want: "!\nGet-Item : A parameter cannot be found that matches parameter name 'Bogus'.\n{{}}NamedParameterNotFound,{{}}"},
	{name: "unknown member", script: "[math]::Cbrt(8)", want: "!\nMethod invocation failed because [System.Math] does not contain a method named 'Cbrt' in mullion's PowerShell. See docs/fidelity/pwsh.md.\n{{}}"},
	{name: "parameter that Windows has", script: "Get-ChildItem -Hidden", want: "!\nGet-ChildItem : the parameter -Hidden of Get-ChildItem is not supported by mullion's PowerShell. See docs/fidelity/pwsh.md.\n{{}}"},
	{name: "decimal", script: "[decimal]1", want: "!\nthe type [decimal] is not supported{{}}"},
	{name: "jobs", script: "Start-Job { 1 }", want: "!\nStart-Job : Start-Job is not supported{{}}"},
	{name: "background", script: "1 &", want: "!\n{{}}The ampersand (&) character is not allowed.{{}}"},
}
