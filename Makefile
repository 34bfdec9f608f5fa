# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# Every target is incremental: a second run without changes does nothing.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export CGO_ENABLED := 0
# Builds, vet and tests share one compilation of Kubernetes only if their flags
# are the same.
export GOFLAGS := $(GOFLAGS) -trimpath

KUBERNETES := v1.36.3
# A clone without tags has only a commit; internal/version says the same.
DESCRIBED  := $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null)
VERSION    := $(if $(filter v%,$(DESCRIBED)),$(DESCRIBED),$(if $(DESCRIBED),v0.0.0-g$(DESCRIBED),v0.0.0-unknown))

# kubectl and the kubelet do not work with a version that they cannot parse.
KUBE_X := k8s.io/component-base/version k8s.io/client-go/pkg/version
KUBE_LDFLAGS := -s -w $(foreach p,$(KUBE_X), -X $p.gitVersion=$(KUBERNETES) -X $p.gitMajor=1 -X $p.gitMinor=36 -X $p.gitTreeState=clean)
LDFLAGS := -s -w -X github.com/mullion-k8s/mullion/internal/version.version=$(VERSION)

# All Go sources of this module and of pwsh/, which it links; generated lists would go stale.
SOURCES := $(shell find internal cmd pwsh -name '*.go' -not -name '*_test.go' 2>/dev/null) go.mod go.sum pwsh/go.mod pwsh/go.sum
UPSTREAM := upstream/go.mod upstream/go.sum

WINDOWS_UPSTREAM := $(addprefix bin/windows/,kubelet.exe kube-proxy.exe win-bridge.exe host-local.exe)
WINDOWS_OURS     := $(addprefix bin/windows/,mullion.exe mullion-bridge.exe powershell.exe winbox.exe)
WORKER_KUBE      := $(addprefix bin/linux/,kubelet kube-proxy)
WORKER_CNI       := $(addprefix bin/linux/,ptp host-local portmap)
CONTAINERD_ALL   := $(addprefix bin/linux/,containerd containerd-shim-runc-v2 ctr)
OURS             := $(addprefix bin/,mullion mullion-winhost mullion-linuxhost)
LINUX_OURS       := $(OURS) bin/mullion-kube bin/linux/pause.tar bin/linux/hello.tar
CONTAINERD       := 2.4.2

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
up: deps ## Install dependencies, build, start a cluster (NETWORK=host-gw or vxlan: with flannel)
	@hack/up $(if $(NETWORK),--network $(NETWORK))

.PHONY: deps
deps: ## Install missing packages of the distribution (apt, needs root)
	@hack/deps

.PHONY: build
build: $(LINUX_OURS) $(WINDOWS_UPSTREAM) $(WINDOWS_OURS) $(WORKER_KUBE) $(WORKER_CNI) $(CONTAINERD_ALL) native ## Build everything into bin/

# Sections of Go's Windows programs begin at multiples of 512 bytes in the file.
# Wine cannot map those and reads the whole program into private memory: 150 MB
# for each emulated host. Page-aligned sections are mapped and shared; their
# content is the same (docs/adr/0004-page-aligned-programs.md). objcopy would write
# the time of day into the header: the same sources give the same bytes.
page-align = @for f in $(1); do SOURCE_DATE_EPOCH=0 x86_64-w64-mingw32-objcopy --file-alignment 4096 $$f $$f.tmp && chmod 755 $$f.tmp && mv $$f.tmp $$f; done

say = @printf '  %-6s %s\n' "$(1)" "$@"

# One `go build` for all programs of a module: the linkers run beside each other, and nothing is compiled twice.

# Upstream's programs, unmodified, from the modules that upstream/go.mod pins.
CNI := github.com/containernetworking/plugins/plugins
KUBE_NODE := $(addprefix k8s.io/kubernetes/cmd/,kubelet kube-proxy)
$(WINDOWS_UPSTREAM) &: $(UPSTREAM)
	@printf '  %-6s %s\n' GO "bin/windows/{kubelet,kube-proxy,win-bridge,host-local}.exe (Kubernetes $(KUBERNETES); the first time takes minutes)"
	@mkdir -p bin/windows
	@cd upstream && GOOS=windows go build -ldflags "$(KUBE_LDFLAGS)" -o ../bin/windows/ \
	  $(KUBE_NODE) $(CNI)/main/windows/win-bridge $(CNI)/ipam/host-local
	$(call page-align,$(WINDOWS_UPSTREAM))

# Programs of the networks host-gw and vxlan. The modules of flannel and of its CNI plugin have a go.mod of their own,
# because they need other versions of what the rest needs. flannel's graph names modules that cannot be had and that its
# Windows build does not import; so it is not tidy, and -mod=mod builds it all the same.
FLANNEL := v0.28.10
WINDOWS_FLANNEL := $(addprefix bin/windows/,flanneld.exe flannel.exe win-overlay.exe)
LINUX_FLANNEL := $(addprefix bin/linux/,flanneld flannel)

bin/windows/flanneld.exe: upstream/flannel/go.mod upstream/flannel/go.sum
	@printf '  %-6s %s\n' GO "$@ (flannel $(FLANNEL); the first time takes minutes)"
	@mkdir -p bin/windows
	@cd upstream/flannel && GOOS=windows go build -mod=mod -ldflags "-s -w -X github.com/flannel-io/flannel/pkg/version.Version=$(FLANNEL)" -o ../../$@ github.com/flannel-io/flannel
	$(call page-align,$@)

bin/windows/flannel.exe: upstream/flannel-cni/go.mod upstream/flannel-cni/go.sum
	$(call say,GO)
	@mkdir -p bin/windows
	@cd upstream/flannel-cni && GOOS=windows go build -mod=mod -ldflags "-s -w" -o ../../$@ github.com/containernetworking/plugins/plugins/meta/flannel
	$(call page-align,$@)

# Upstream's main package for Linux links backends that need cgo; upstream/flannel/flanneld is flannel's packages without.
bin/linux/flanneld: upstream/flannel/go.mod upstream/flannel/go.sum upstream/flannel/flanneld/main.go
	@printf '  %-6s %s\n' GO "$@ (flannel $(FLANNEL))"
	@mkdir -p bin/linux
	@cd upstream/flannel && go build -ldflags "-s -w -X github.com/flannel-io/flannel/pkg/version.Version=$(FLANNEL)" -o ../../$@ ./flanneld
	@touch $@

bin/linux/flannel: upstream/flannel-cni/go.mod upstream/flannel-cni/go.sum
	$(call say,GO)
	@mkdir -p bin/linux
	@cd upstream/flannel-cni && go build -mod=mod -ldflags "-s -w" -o ../../$@ github.com/containernetworking/plugins/plugins/meta/flannel
	@touch $@

bin/windows/win-overlay.exe: $(UPSTREAM)
	$(call say,GO)
	@mkdir -p bin/windows
	@cd upstream && GOOS=windows go build -ldflags "-s -w" -o ../$@ github.com/containernetworking/plugins/plugins/main/windows/win-overlay
	$(call page-align,$@)

.PHONY: flannel
flannel: build $(WINDOWS_FLANNEL) $(LINUX_FLANNEL) ## Build what `mullion up --network host-gw` and `--network vxlan` need

# The programs of a Linux worker, unmodified. kubelet and kube-proxy have the versions of go.mod: 1,454 of their 1,583
# packages are in mullion-kube too, and with the versions of upstream/go.mod 1,223 of these would be compiled again.
$(WORKER_KUBE) &: go.mod go.sum
	@printf '  %-6s %s\n' GO "bin/linux/{kubelet,kube-proxy} (Kubernetes $(KUBERNETES))"
	@mkdir -p bin/linux
	@go build -ldflags "$(KUBE_LDFLAGS)" -o bin/linux/ $(KUBE_NODE)
	@touch $(WORKER_KUBE)

$(WORKER_CNI) &: $(UPSTREAM)
	@printf '  %-6s %s\n' GO "bin/linux/{ptp,host-local,portmap}"
	@mkdir -p bin/linux
	@cd upstream && go build -ldflags "-s -w" -o ../bin/linux/ $(CNI)/main/ptp $(CNI)/ipam/host-local $(CNI)/meta/portmap
	@touch $(WORKER_CNI)

# A module of its own: it needs other versions of what Kubernetes needs too.
CONTAINERD_PKG := github.com/containerd/containerd/v2
$(CONTAINERD_ALL) &: upstream/containerd/go.mod upstream/containerd/go.sum
	@printf '  %-6s %s\n' GO "bin/linux/{containerd,containerd-shim-runc-v2,ctr} (containerd $(CONTAINERD))"
	@mkdir -p bin/linux
	@cd upstream/containerd && go build -tags "no_btrfs no_zfs no_devmapper" \
	  -ldflags "-s -w -X $(CONTAINERD_PKG)/version.Version=$(CONTAINERD)" -o ../../bin/linux/ \
	  $(addprefix $(CONTAINERD_PKG)/cmd/,containerd containerd-shim-runc-v2 ctr)
	@touch $(CONTAINERD_ALL)

# Images for Linux pods that are built, not fetched: that of every sandbox, and that of examples/mixed.yaml.
bin/linux/pause.tar: $(wildcard cmd/mullion-pause/*.go tools/image/*.go)
	$(call say,IMAGE)
	@mkdir -p bin/linux bin/image
	@go build -ldflags "-s -w" -o bin/image/pause ./cmd/mullion-pause
	@go run ./tools/image -bare pause -o $@ -t mullion/pause:1 linux/amd64=bin/image/pause >/dev/null

bin/linux/hello.tar: $(wildcard cmd/hello/*.go tools/image/*.go)
	$(call say,IMAGE)
	@mkdir -p bin/linux bin/image
	@go build -ldflags "-s -w" -o bin/image/hello ./cmd/hello
	@go run ./tools/image -bare hello -o $@ -t mullion/hello:1 linux/amd64=bin/image/hello >/dev/null

# Conformance suites of other projects, as test binaries.
bin/windows/critest.exe: $(UPSTREAM)
	$(call say,GO)
	@cd upstream && GOOS=windows go test -c -o ../$@ sigs.k8s.io/cri-tools/cmd/critest

bin/windows/hcn.test.exe: $(UPSTREAM)
	$(call say,GO)
	@cd upstream && GOOS=windows go test -c -tags 'integration integration_loadbalancer featureroutesupport' -o ../$@ github.com/Microsoft/hnslib/hcn

$(OURS) &: $(SOURCES)
	@printf '  %-6s %s\n' GO "bin/{mullion,mullion-winhost,mullion-linuxhost}"
	@go build -ldflags "$(LDFLAGS)" -o bin/ $(OURS:bin/%=./cmd/%)
	@touch $(OURS)

bin/mullion-kube: $(SOURCES)
	@printf '  %-6s %s\n' GO "$@ (Kubernetes $(KUBERNETES); the first time takes minutes)"
	@go build -ldflags "$(KUBE_LDFLAGS) $(LDFLAGS)" -o $@ ./cmd/mullion-kube

$(WINDOWS_OURS) &: $(SOURCES)
	@printf '  %-6s %s\n' GO "bin/windows/{mullion,mullion-bridge,powershell,winbox}.exe"
	@mkdir -p bin/windows
	@GOOS=windows go build -ldflags "$(LDFLAGS)" -o bin/windows/ $(WINDOWS_OURS:bin/windows/%.exe=./cmd/%)
	$(call page-align,$(WINDOWS_OURS))

# Wine, the programs that a host runs beside it and their libraries: Debian's packages, unpacked.
DEBROOT := go run -C tools/debroot . -list $(CURDIR)/native/packages.txt
bin/wine: native/packages.txt $(filter-out %_test.go,$(wildcard tools/debroot/*))
	$(call say,WINE)
	@$(DEBROOT) -o $(CURDIR)/$@
	@touch $@

.PHONY: wine-update
wine-update: ## Update the list of Debian's packages in bin/wine to the versions of today
	@$(DEBROOT) -update

.PHONY: native
native: bin/wine ## Build the Windows DLLs that the emulated hosts need
	@$(MAKE) -C native -j$(shell nproc)

# The image of `mullion install`, for the nodes of any cluster. The first time
# for a platform compiles everything for it.
IMAGE := mullion/mullion:$(VERSION)
IMAGE_ARCHITECTURES := amd64 arm64

bin/image/mullion-%: $(SOURCES)
	$(call say,GO)
	@mkdir -p bin/image
	@GOOS=linux GOARCH=$* go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/mullion

bin/image/mullion.tar: $(addprefix bin/image/mullion-,$(IMAGE_ARCHITECTURES)) $(wildcard tools/image/*.go)
	$(call say,IMAGE)
	@go run ./tools/image -o $@ -t $(IMAGE) $(foreach a,$(IMAGE_ARCHITECTURES),linux/$a=bin/image/mullion-$a)

.PHONY: image
image: bin/image/mullion.tar ## Build the image of `mullion install` as an archive, bin/image/mullion.tar

# The date is the commit's, so that a second run makes the same files.
.PHONY: dist
dist: flannel ## Pack bin/ into an archive, a .deb, a bill of materials and checksums in dist/
	@go run -C tools/release . -bin $(CURDIR)/bin -root $(CURDIR) -o $(CURDIR)/dist -version $(VERSION) \
	  -date $(shell git log -1 --format=%ct) | sed 's,^,  DIST   dist/,'

.PHONY: suites
suites: bin/windows/critest.exe bin/windows/hcn.test.exe ## Build the conformance suites of other projects

# Packages that do not depend on k8s.io/kubernetes: they build and test in seconds.
FAST = $(shell go list ./... | grep -v -e internal/controlplane -e cmd/mullion-kube -e /test/)

.PHONY: test
test: build suites flannel $(addprefix bin/peers/,etcd kube-apiserver kube-controller-manager helm) ## Run everything (PARTIAL=1 accepts skipped tests)
	@hack/test all $(if $(PARTIAL),--partial) $(if $(SHUFFLE),--shuffle)

.PHONY: test-fast
test-fast: ## Run the unit tests that need neither root nor a build
	@go test $(FAST)
	@go test -C pwsh ./...

.PHONY: e2e
e2e: build ## Run an end-to-end test, RUN=TestGuideWebServer, on a cluster that stays for the next run
	@hack/test e2e '$(RUN)'

.PHONY: e2e-down
e2e-down: ## Remove the cluster that `make e2e` keeps
	@hack/test e2e-down

.PHONY: cover
cover: ## Run the tests of pwsh/ and fail below 85 % coverage
	@hack/cover pwsh 85

# What `make bench` compares with: kwokctl's binary runtime around the same Kubernetes; kubeconform with the same manifests.
PEER_PROGRAMS := kwok kwokctl etcd kubeconform
PEER_kwok        := sigs.k8s.io/kwok/cmd/kwok
PEER_kwokctl     := sigs.k8s.io/kwok/cmd/kwokctl
PEER_etcd        := go.etcd.io/etcd/server/v3
PEER_kubeconform := github.com/yannh/kubeconform/cmd/kubeconform
$(addprefix bin/peers/,$(PEER_PROGRAMS)): bin/peers/%: test/bench/peers/go.mod test/bench/peers/go.sum
	$(call say,GO)
	@mkdir -p bin/peers
	@cd test/bench/peers && go build -ldflags "-s -w" -o ../../../$@ $(PEER_$*)
	@touch $@

PEERS := kube-apiserver kube-controller-manager kube-scheduler
$(addprefix bin/peers/,$(PEERS)): bin/peers/%: go.mod go.sum
	$(call say,GO)
	@mkdir -p bin/peers
	@go build -ldflags "$(KUBE_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/$*

# Helm itself, which installs the chart in a test.
bin/peers/helm: test/conformance/chart/go.mod test/conformance/chart/go.sum
	$(call say,GO)
	@mkdir -p bin/peers
	@cd test/conformance/chart && go build -ldflags "-s -w" -o ../../../$@ helm.sh/helm/v4/cmd/helm
	@touch $@

.PHONY: peers
peers: $(addprefix bin/peers/,$(PEER_PROGRAMS) $(PEERS) helm) ## Build the programs that `make bench` and the tests compare with

.PHONY: bench
bench: build peers ## Run the benchmarks, with ratios to peers in the same run; fail if a goal is missed
	@hack/test bench

.PHONY: bench-counts
bench-counts: ## Run the benchmarks whose figures are the same everywhere, as `make test` does
	@hack/test counts

.PHONY: programs
programs: build ## Try programs of other projects in pods, from npm, and write docs/fidelity/programs.md
	@MULLION_PROGRAMS=all MULLION_REQUIRE=root,wine,runc,nft,built,npm \
	  go test -count=1 -v -timeout 60m ./test/programs -update

# The share of the full counts: 1,000 kills of the server, 10,000 pods, and so on.
SOAK := 1
.PHONY: soak
soak: build ## Repeat faults for hours: SOAK=1 is 1,000 kills -9 under load and 10,000 pods
	@hack/test soak $(SOAK)

FUZZTIME := 20s
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (default 20s)
	@hack/fuzz $(FUZZTIME)

# Pinned: a new linter version finds new problems, which must not break the
# build of unchanged code.
GOLANGCI_LINT := v2.15.0
bin/tools/golangci-lint-$(GOLANGCI_LINT):
	$(call say,GO)
	@GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv bin/tools/golangci-lint $@

# Prints the path, for hack/gotest.
GOTESTSUM := v1.13.0
bin/tools/gotestsum-$(GOTESTSUM):
	@GOBIN=$(CURDIR)/bin/tools go install gotest.tools/gotestsum@$(GOTESTSUM)
	@mv bin/tools/gotestsum $@

.PHONY: gotestsum
gotestsum: bin/tools/gotestsum-$(GOTESTSUM)
	@echo $(CURDIR)/$<

.PHONY: check
check: bin/tools/golangci-lint-$(GOLANGCI_LINT) ## Check formatting, vet for both systems, linters, repository rules
	@hack/check $<

.PHONY: gen
gen: ## Regenerate the reference pages and the tables of docs/fidelity
	@go test ./cmd/mullion ./internal/lint -update
	@go test -C pwsh ./internal/cmdlet -update

.PHONY: clean
clean: ## Remove bin/
	@rm -rf bin
