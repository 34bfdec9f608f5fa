# Each line needs something of the machine, and must fail in a session without handlers.
Get-Item /etc/passwd
Get-Content /etc/passwd
Set-Content /tmp/x y
'x' > /tmp/x
New-Item /tmp/x
mkdir /tmp/x
Remove-Item /tmp/x
Copy-Item /etc/passwd /tmp/x
Move-Item /a /b
Rename-Item /a b
New-Item -ItemType SymbolicLink /a -Value /b
Get-ChildItem /
Resolve-Path /etc
Set-Location /etc
[IO.File]::ReadAllText('/etc/passwd')
[IO.File]::WriteAllText('/tmp/x', 'y')
[IO.Directory]::CreateDirectory('/tmp/x')
[IO.Path]::GetTempPath()
[IO.Path]::GetTempFileName()
New-TemporaryFile
Get-FileHash /etc/passwd
Select-String x /etc/passwd
Import-Csv /etc/passwd
. /etc/profile.ps1
Import-Module /tmp/m.psm1
Get-ItemProperty /etc/passwd
Set-ItemProperty /tmp/x LastWriteTime 2020-01-01
sh -c true
Start-Process sh
& /bin/sh
Get-Process
Stop-Process 1
Get-Service
Start-Service x
Get-CimInstance Win32_Process
[Diagnostics.Process]::GetCurrentProcess()
[Environment]::MachineName
[Environment]::SetEnvironmentVariable('A', 'b')
$env:A = 'b'
Set-Item env:A b
Get-ChildItem env:
Get-Item env:PATH
[Net.Dns]::GetHostName()
[Security.Principal.WindowsIdentity]::GetCurrent()
Resolve-DnsName localhost
Test-NetConnection localhost -Port 1
[Net.Dns]::GetHostAddresses('localhost')
Invoke-WebRequest http://127.0.0.1/
Invoke-RestMethod http://127.0.0.1/
(New-Object Net.WebClient).DownloadString('http://127.0.0.1/')
[Net.Sockets.TcpClient]::new('127.0.0.1', 1)
$l = [Net.Sockets.TcpListener]::new(0); $l.Start()
$l = New-Object Net.HttpListener; $l.Prefixes.Add('http://+:1/'); $l.Start()
Get-NetAdapter
Get-NetIPAddress
Get-NetRoute
New-NetRoute -DestinationPrefix 10.0.0.0/8 -InterfaceIndex 1
Get-NetIPConfiguration
Get-Item HKLM:\SOFTWARE
Get-ItemProperty HKLM:\SOFTWARE
Set-ItemProperty HKLM:\SOFTWARE a b
New-Item HKLM:\SOFTWARE\x
Remove-Item HKLM:\SOFTWARE
Get-ChildItem HKLM:\SOFTWARE
Remove-ItemProperty HKLM:\SOFTWARE a
Start-Sleep 1
[Threading.Thread]::Sleep(1)
