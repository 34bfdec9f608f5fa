<#
 .SYNOPSIS
 An entry point as images for Windows have it.
#>
[CmdletBinding()]
param([string[]] $Features = @('a', 'b'), $Config = "$env:ProgramData\app\config.json")

function Get-Setting {
    param([Parameter(ValueFromPipeline)] $Name, $Default = $null)
    process {
        $value = [Environment]::GetEnvironmentVariable($Name)
        if ([string]::IsNullOrEmpty($value)) { $Default } else { $value }
    }
}

$settings = [ordered]@{
    Port    = [int]('PORT' | Get-Setting -Default 8080)
    Verbose = ($env:VERBOSE -eq '1')
    Paths   = @('C:\app', "C:\data\$env:COMPUTERNAME")
}

foreach ($path in $settings.Paths) {
    if (!(Test-Path $path)) { New-Item -ItemType Directory -Path $path -Force | Out-Null }
}

switch -Regex ($Features) {
    '^a' { Write-Verbose "feature $_"; continue }
    '^b|c$' { $settings["feature_$_"] = $true }
    default { Write-Warning "unknown feature $_" }
}

$settings | ConvertTo-Json -Depth 4 | Set-Content -Path $Config -Encoding UTF8
Get-ChildItem env: | Where-Object { $_.Name -like 'APP_*' } | Sort-Object Name | ForEach-Object {
    "{0,-20}={1}" -f $_.Name, $_.Value
}
$i = 0
do { $i++; if ($i % 2) { continue } ; Start-Sleep -Milliseconds 10 } while ($i -lt 4)
& "$PSScriptRoot\app.exe" --port $settings.Port --% /raw %PATH% 2>&1 | Tee-Object -FilePath C:\app\log.txt
exit $LASTEXITCODE
