module github.com/mullion-k8s/mullion/pwsh

go 1.26.0

require golang.org/x/sys v0.47.0
