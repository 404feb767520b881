# make demo   the main job, start to end, with nothing but Go
# make test   all tests, on real servers too
# make lint   formatting, vet, module files
# make bench  the benchmarks
# make console-types   type check of the console's sources (needs npm)

export GOFLAGS ?= -buildvcs=false

TOOLS := $(CURDIR)/.tools
MINIO := github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
INFLUXD := github.com/influxdata/influxdb/cmd/influxd@v1.8.10
DEBIAN := minisign postgresql mosquitto mosquitto-clients chromium

.PHONY: build demo test lint bench tools console-types

build:
	go build -o bin/tsmon ./cmd/tsmon

demo:
	@sh cmd/tsmon/demo.sh

# A missing server fails here: TSMON_TEST_REAL turns skips into failures.
test: tools
	TSMON_TEST_REAL=1 TSMON_TEST_MINIO=$(TOOLS)/minio TSMON_TEST_INFLUXD=$(TOOLS)/influxd go test -count=1 -timeout 14m ./...
	go test -race -count=1 -short -timeout 10m $$(go list ./... | grep -v '/cmd/tsmon$$')
	go test -race -count=1 -short -timeout 10m -run 'TestServe|TestCertificate' ./cmd/tsmon

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go mod tidy -diff

bench:
	go test -run '^$$' -bench . -benchmem ./...

console-types:
	cd api/console && npm install --no-package-lock --no-audit --no-fund && npm run check

tools: $(TOOLS)/minio $(TOOLS)/influxd
	@(for name in minisign mosquitto_sub chromium; do command -v $$name || exit 1; done) >/dev/null && ls /usr/sbin/mosquitto /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ apt-get update >/dev/null && apt-get install -y $(DEBIAN) >/dev/null; } || \
		{ echo "install $(DEBIAN) (their Debian names)"; exit 1; }

$(TOOLS)/minio:
	GOBIN=$(TOOLS) go install $(MINIO)

$(TOOLS)/influxd:
	GOBIN=$(TOOLS) go install $(INFLUXD)
