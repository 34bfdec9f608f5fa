module github.com/mullion-k8s/mullion/upstream/flannel-cni

go 1.26.2

require github.com/containernetworking/plugins v0.9.1
