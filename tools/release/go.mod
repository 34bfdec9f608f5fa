module github.com/mullion-k8s/mullion/tools/release

go 1.26

require (
	github.com/spdx/tools-golang v0.5.7
	golang.org/x/mod v0.39.0
)

require github.com/anchore/go-struct-converter v0.1.0 // indirect
