# Answers each request by its path, until /stop.
$l = New-Object System.Net.HttpListener
$l.IsListening; [System.Net.HttpListener]::IsSupported
foreach ($bad in 'https://+:1/', 'http://+:1', 'ftp://x/', 'http://:1/', 'http://h:99999999/') {
    try { $l.Prefixes.Add($bad) } catch { "refused $bad" }
}
try { $l.GetContext() } catch { $_.Exception.InnerException.Message }
try { $l.AuthenticationSchemes = 'Basic' } catch { 'no authentication' }
$l.AuthenticationSchemes = 'Anonymous'; $l.IgnoreWriteExceptions = $true
$l.Prefixes.Add('http://localhost:8080/'); $l.Prefixes.Count
$l.Start(); $l.Start(); $l.IsListening
while ($l.IsListening) {
    $c = $l.GetContext(); $q = $c.Request; $r = $c.Response
    switch ($q.Url.AbsolutePath) {
        '/info' {
            "$($q.RawUrl) $($q.UserAgent) $($q.ContentType) $($q.ContentLength64) $($q.IsLocal) $($q.KeepAlive) $($q.ProtocolVersion)"
            "$($q.IsSecureConnection) $($q.UserHostName -eq $q.Url.Authority) $($q.UserHostAddress -like '127.0.0.1:*') $($q.LocalEndPoint.Address)"
            "$($q.Headers['x-in']) $($q.Headers.AllKeys -contains 'Host') $($q.QueryString.AllKeys -join '+') $($c.User -eq $null)"
            try { $q.Cookies } catch { 'no cookies' }
            $r.StatusDescription; $r.ContentLength64; $r.ContentType -eq $null; $r.KeepAlive; $r.SendChunked; $r.ContentEncoding.WebName
            $r.Close()
        }
        '/redirect' { $r.Redirect('http://h/x'); $r.RedirectLocation; $r.StatusCode; $r.Close() }
        '/bytes' { $r.StatusDescription = 'Fine'; $r.StatusDescription; $r.Close([byte[]](104, 105), $false); $r.Close() }
        '/chunked' { $r.SendChunked = $true; $w = [IO.StreamWriter]::new($r.OutputStream); $w.Write('in pieces'); $w.Flush(); $w.Close() }
        '/headers' {
            $r.AddHeader('X-A', '1'); $r.AppendHeader('X-A', '2'); $r.Headers.Set('X-B', '3'); $r.KeepAlive = $false
            $r.RedirectLocation = '/l'; $r.ContentEncoding = [Text.Encoding]::UTF8; $r.Dispose()
        }
        '/long' {
            $r.ContentLength64 = 2
            try { $r.OutputStream.Write([byte[]](1, 2, 3), 0, 3) } catch { $_.Exception.InnerException.GetType().Name }
            $r.OutputStream.Write([byte[]](65, 66), 0, 2); $r.Close()
            try { $r.OutputStream.Write([byte[]](67), 0, 1) } catch { $_.Exception.InnerException.GetType().Name }
        }
        '/status' { try { $r.StatusCode = 1 } catch { 'three digits' }; $r.StatusCode = 404; $r.Close() }
        '/abort' { $r.Abort() }
        '/stop' { $r.Close(); $l.Stop(); $l.Close() }
    }
}
