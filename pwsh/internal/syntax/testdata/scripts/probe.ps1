# What readiness probes of Windows pods commonly are.
param(
    [Parameter(Mandatory = $true)] [string] $Url,
    [ValidateRange(1, 300)] [int] $TimeoutSec = 5,
    [switch] $Quiet
)
$ErrorActionPreference = 'Stop'
try {
    $response = Invoke-WebRequest -Uri $Url -UseBasicParsing -TimeoutSec $TimeoutSec
    if ($response.StatusCode -ne 200) { throw "status $($response.StatusCode)" }
    if (-not $Quiet) { Write-Output ("ok {0:N0} bytes" -f $response.RawContentLength) }
    exit 0
} catch [System.Net.WebException] {
    Write-Host "unreachable: $($_.Exception.Message)"
    exit 1
} catch {
    Write-Host $_
    exit 2
} finally {
    Remove-Variable response -ErrorAction SilentlyContinue
}
