module github.com/mullion-k8s/mullion/tools/debroot

go 1.26

require (
	github.com/ProtonMail/go-crypto v1.5.2
	github.com/klauspost/compress v1.19.2
	github.com/therootcompany/xz v1.0.1
	github.com/ulikunitz/xz v0.5.17
)

require (
	github.com/cloudflare/circl v1.6.3 // indirect
	golang.org/x/crypto v0.41.0 // indirect
	golang.org/x/sys v0.35.0 // indirect
)
