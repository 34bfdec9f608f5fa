module github.com/mullion-k8s/mullion/upstream/flannel

go 1.26.2

require github.com/flannel-io/flannel v0.28.10
