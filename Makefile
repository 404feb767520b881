# make demo       the main job, start to end, with nothing but Go
# make test       all tests, on real servers too
# make test-long  crashes at every storage operation, attacks and ages at full size, the race detector: hours
# make test-long SHARE=3/16   the third of sixteen shares of that, a quarter of an hour
# make test-engines  the suite of time series on InfluxDB 2.7 and openGemini, which it builds (half an hour)
# make test-openapi  what Schemathesis finds of the description, which it installs
# make test-plugin   an application with the real updater plugin updates itself (needs Rust)
# make test-windows  the Windows program under wine, which it installs
# make lint       formatting, vet, linters, module files
# make bench      the benchmarks, compared with the figures in testdata
# make baseline   the benchmarks, kept in testdata
# make console-types   type check of the console's sources (needs npm)
# make dist VERSION=0.1.0   archives, packages, image, SBOMs and signatures, in dist/
# make dist-test  builds that twice, installs and runs it

export GOFLAGS ?= -buildvcs=false

TOOLS := $(CURDIR)/.tools
MINIO := github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
MC := github.com/minio/mc@v0.0.0-20250313080218-cf909e1063a9
INFLUXD := github.com/influxdata/influxdb/cmd/influxd@v1.8.10
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
SCHEMATHESIS := schemathesis==4.32.5
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.14.3
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
KUBECONFORM := github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
DEBIAN := minisign postgresql mosquitto mosquitto-clients chromium prometheus nginx curl openssl openssh-client
MINGW := x86_64-w64-mingw32
WEBKIT := webkit2gtk-4.1 javascriptcoregtk-4.1
REAL := TSMON_TEST_REAL=1 TSMON_TEST_MINIO=$(TOOLS)/minio TSMON_TEST_INFLUXD=$(TOOLS)/influxd TSMON_TEST_MC=$(TOOLS)/mc

.PHONY: build demo test test-long test-engines test-openapi test-plugin test-windows lint bench baseline tools console-types dist dist-test

build:
	go build -o bin/tsmon ./cmd/tsmon

demo:
	@sh cmd/tsmon/demo.sh

# Tests write many small files and wait until each is on the disk. A disk in memory, if there
# is one with room for all and for programs, spares them that.
MEMORY := $(shell findmnt -bnro AVAIL,OPTIONS /dev/shm 2>/dev/null | awk '$$1 > 8e9 && $$2 !~ /noexec/ { print "/dev/shm"; exit }')

# TSMON_TEST_REAL turns skips into failures: a missing server fails here.
# Many tests wait for servers, so three packages and four tests of each run at once. The
# longest package goes first. Collecting garbage at the usual pace takes a quarter of the time.
test: tools
	dir=$$(mktemp -d -p "$(or $(TMPDIR),$(MEMORY),/tmp)" tsmon-XXXXXX) && chmod 755 $$dir && trap 'rm -rf $$dir' EXIT INT TERM; \
	TMPDIR=$$dir GOGC=400 $(REAL) go test -count=1 -p 3 -parallel 4 -timeout 30m ./cmd/tsmon ./...

# Kills at every storage operation instead of one in 23 or more, all scripts on MinIO instead of
# a third, thousands of orders of writers, 200,000 made-up clients instead of 20,000, fleets that
# live for 10,000 days instead of 120, the table of the guard's README, and the race detector.
# That takes hours:
# SHARE=3/16 goes through every sixteenth case, from the third on, in about a quarter of
# an hour. All sixteen shares are the whole. Package longtest divides the cases.
SHARE = 1/1
LONG := ./api/fleet ./api/fleet/verdict/simulate ./api/updates ./channels ./cmd/tsmon ./release ./store/record/postgres ./store/record/sqlite ./store/series/sqlite
LONG_TESTS := KilledAnywhere$$|RingsKilled$$|KilledPacking|KilledUpkeep|PruneMeetsEverybody|SixteenPublishers|SixteenMoversOfRings|Interleavings|PlansComeTrue$$|FortyAddresses|ManyPlans|TestTable|TestAges|TestContract$$/Ages|TestScripts$$/minio
RACED = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | awk -v share=$(SHARE) 'BEGIN { split(share, s, "/") } /./ && ++n % s[2] == s[1] % s[2]'

# The race detector skips SQLite, a large program translated from C, and is three times as fast.
RACE := go test -race -gcflags='modernc.org/...=-race=false' -count=1 -short -timeout 60m

test-long: tools
	$(REAL) TSMON_TEST_LONG=$(SHARE) go test -count=1 -timeout 10h -run '$(LONG_TESTS)' $(LONG)
	$(RACED) | grep -v '/cmd/tsmon$$' | xargs -r $(RACE)
	$(RACED) | grep '/cmd/tsmon$$' | xargs -r $(RACE) -run 'TestServe|TestCertificate'

# `make test` has them too, once the server is built.
test-engines: tools test-openapi $(TOOLS)/influxd2 $(TOOLS)/opengemini
	$(REAL) TSMON_TEST_INFLUXD2=$(TOOLS)/influxd2 TSMON_TEST_OPENGEMINI=$(TOOLS)/opengemini go test -count=1 -timeout 25m ./store/series/influx
	$(REAL) TSMON_TEST_INFLUXD2=$(TOOLS)/influxd2 go test -count=1 -timeout 14m -run TestBuckets ./cmd/tsmon

test-openapi: $(TOOLS)/schemathesis
	TSMON_TEST_SCHEMATHESIS=$(TOOLS)/schemathesis/bin/schemathesis go test -count=1 -timeout 30m -run TestSchemathesis ./api

# Takes half an hour the first time, and a gigabyte.
test-plugin:
	@command -v cargo >/dev/null || { echo "install Rust (rustup.rs)"; exit 1; }
	@pkg-config --exists $(WEBKIT) || { apt-get update >/dev/null && apt-get install -y $(WEBKIT:%=lib%-dev) >/dev/null; } || \
		{ echo "install $(WEBKIT:%=lib%-dev) (their Debian names)"; exit 1; }
	cargo build --locked --manifest-path cmd/tsmon/testdata/plugin/Cargo.toml --target-dir $(TOOLS)/plugin
	TSMON_TEST_PLUGIN=$(TOOLS)/plugin/debug/plugin go test -count=1 -run TestPlugin ./cmd/tsmon

# Go needs a library of Windows that Debian's wine lacks.
test-windows: tools
	@ls /usr/lib/wine/wine64 >/dev/null 2>&1 && command -v $(MINGW)-gcc >/dev/null || \
		{ apt-get update >/dev/null && apt-get install -y --no-install-recommends wine64 gcc-mingw-w64-x86-64-win32 >/dev/null; } || \
		{ echo "install wine64 gcc-mingw-w64-x86-64-win32 (their Debian names)"; exit 1; }
	mkdir -p $(TOOLS)/windows
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -o $(TOOLS)/windows/tsmon.exe ./cmd/tsmon
	$(MINGW)-gcc -shared -o $(TOOLS)/windows/bcryptprimitives.dll cmd/tsmon/testdata/windows/bcryptprimitives.c -ladvapi32
	$(REAL) TSMON_TEST_WINDOWS=$(TOOLS)/windows go test -count=1 -timeout 20m -run TestWindows ./cmd/tsmon

lint: $(TOOLS)/golangci-lint
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	$(TOOLS)/golangci-lint run ./...
	go mod tidy -diff

# Packages whose benchmarks have figures to compare with, and how often each runs.
BENCHED = $$(git ls-files '*/testdata/bench.txt' | sed 's|/testdata/bench.txt||')
COUNT   = 6

bench: $(TOOLS)/benchstat
	@set -- $(BENCHED); test $$# -gt 0 || { echo "no package has figures: make baseline BENCHED=PACKAGE"; exit 1; }; mkdir -p bin; \
	for p; do \
		go test -run '^$$' -bench . -benchmem -count $(COUNT) ./$$p > bin/bench.txt || exit 1; \
		$(TOOLS)/benchstat $$p/testdata/bench.txt bin/bench.txt; \
	done

# make baseline BENCHED=PACKAGE adds one.
baseline:
	@for p in $(BENCHED); do \
		mkdir -p $$p/testdata bin && go test -run '^$$' -bench . -benchmem -count $(COUNT) ./$$p > bin/bench.txt && mv bin/bench.txt $$p/testdata/bench.txt || exit 1; \
	done

console-types:
	cd api/console && npm install --no-package-lock --no-audit --no-fund && npm run check

# TAURI_SIGNING_PRIVATE_KEY and its password sign it; cmd/tsmon/packaging/dist.sh lists
# the other variables.
dist: $(TOOLS)/goreleaser
	@test -n "$(VERSION)" || { echo "usage: make dist VERSION=0.1.0"; exit 2; }
	TOOLS=$(TOOLS) sh cmd/tsmon/packaging/dist.sh $(VERSION)

# Needs root, for a Debian to install the package in.
dist-test: $(TOOLS)/goreleaser $(TOOLS)/actionlint $(TOOLS)/kubeconform $(TOOLS)/bookworm
	command -v skopeo >/dev/null || apt-get install -y skopeo
	cd cmd/tsmon/packaging && go vet ./... && go test -count=1 -timeout 60m ./...

tools: $(TOOLS)/minio $(TOOLS)/mc $(TOOLS)/influxd
	@(for name in minisign mosquitto_sub chromium promtool curl openssl ssh-keygen; do command -v $$name || exit 1; done) >/dev/null && ls /usr/sbin/mosquitto /usr/sbin/nginx /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ apt-get update >/dev/null && apt-get install -y $(DEBIAN) >/dev/null; } || \
		{ echo "install $(DEBIAN) (their Debian names)"; exit 1; }

$(TOOLS)/minio:
	GOBIN=$(TOOLS) go install $(MINIO)

$(TOOLS)/mc:
	GOBIN=$(TOOLS) go install $(MC)

$(TOOLS)/influxd:
	GOBIN=$(TOOLS) go install $(INFLUXD)

$(TOOLS)/influxd2:
	store/servertest/influxdb2.sh $@

# OPENGEMINI_SOURCE may name a folder with its source, else it is fetched from GitHub.
$(TOOLS)/opengemini:
	store/servertest/opengemini.sh $@ $(OPENGEMINI_SOURCE)

$(TOOLS)/schemathesis:
	{ python3 -m venv $@ || { apt-get install -y python3-venv >/dev/null && python3 -m venv $@; } } && \
		$@/bin/pip install -q $(SCHEMATHESIS) || { rm -rf $@; exit 1; }

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) go install $(GOLANGCI)

$(TOOLS)/benchstat:
	GOBIN=$(TOOLS) go install $(BENCHSTAT)

$(TOOLS)/goreleaser:
	GOBIN=$(TOOLS) go install $(GORELEASER)

$(TOOLS)/actionlint:
	GOBIN=$(TOOLS) go install $(ACTIONLINT)

$(TOOLS)/kubeconform:
	GOBIN=$(TOOLS) go install $(KUBECONFORM)

$(TOOLS)/bookworm:
	(for name in mmdebstrap minisign rpm systemd-analyze curl; do command -v $$name || exit 1; done) >/dev/null || apt-get install -y mmdebstrap minisign rpm systemd curl
	rm -rf $@.new && mmdebstrap --variant=essential --include=passwd bookworm $@.new http://deb.debian.org/debian && mv $@.new $@
