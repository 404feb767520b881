#!/bin/sh
# Builds InfluxDB 2.7 from the Go module proxy and Rust's package registry, and keeps it:
#
#	influxdb2.sh .tools/influxd2
#
# Takes about 15 minutes on two cores, and needs Go, Rust and a C compiler. A program
# that is there already is left alone.
set -eu

test $# = 1 || { echo "usage: influxdb2.sh PROGRAM" >&2; exit 2; }
test ! -x "$1" || exit 0
for name in go cargo cc; do
	command -v $name >/dev/null || { echo "influxdb2.sh needs $name" >&2; exit 1; }
done

influxdb=v2.7.12
flux=v0.196.1 # as in its go.mod

mkdir -p "$(dirname "$1")"
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$program.build
rm -rf "$work"
mkdir -p "$work/bin"
cd "$work"

# module MODULE VERSION FOLDER copies a module, writable.
module() {
	dir=$(GOFLAGS=-mod=mod go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	cp -R "$dir" "$3"
	chmod -R u+w "$3"
}
go mod init build >/dev/null 2>&1
module github.com/influxdata/influxdb/v2 $influxdb src
module github.com/influxdata/flux $flux flux

# Both name an old compiler, whose warnings are errors.
rm -f flux/rust-toolchain.toml
for lib in flux/libflux/flux-core/src/lib.rs flux/libflux/flux/src/lib.rs; do
	sed -i.old '1d' $lib
done

cd src
export GOFLAGS=-mod=mod GOTOOLCHAIN=local RUSTUP_TOOLCHAIN="${RUSTUP_TOOLCHAIN:-stable}"
go mod edit -replace github.com/influxdata/flux=../flux
go build -o ../bin/pkg-config github.com/influxdata/pkg-config
PATH=$work/bin:$PATH go build -buildvcs=false -ldflags "-X main.version=$influxdb" \
	-tags sqlite_foreign_keys,sqlite_json,noassets -o ../bin/influxd ./cmd/influxd
mv ../bin/influxd "$program"
cd /
rm -rf "$work"
