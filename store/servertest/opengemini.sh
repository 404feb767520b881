#!/bin/sh
# Builds the programs of an openGemini cluster (ts-meta, ts-store, ts-sql) and keeps them in
# a folder:
#
#	opengemini.sh .tools/opengemini [SOURCE]
#
# Takes about ten minutes on two cores, and needs Go, and git where the folder of a source
# is not given. A folder that is there already is left alone.
set -eu

test $# = 1 || test $# = 2 || { echo "usage: opengemini.sh FOLDER [SOURCE]" >&2; exit 2; }
test ! -x "$1/ts-sql" || exit 0
command -v go >/dev/null || { echo "opengemini.sh needs go" >&2; exit 1; }

commit=54c9d136a4d3e196742ac0fb3fb12c0c30f32bb5 # August 2026, after v1.5.2
source=${2:-}

mkdir -p "$(dirname "$1")"
folder=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$folder.build
rm -rf "$work"
mkdir -p "$work"
if test -z "$source"; then
	command -v git >/dev/null || { echo "opengemini.sh needs git, or a folder with the source" >&2; exit 1; }
	source=$work/src
	git init -q "$source"
	git -C "$source" fetch -q --depth 1 https://github.com/openGemini/openGemini.git $commit
	git -C "$source" checkout -q FETCH_HEAD
fi
cd "$source"
go build -buildvcs=false -ldflags "-X github.com/openGemini/openGemini/app.Version=$commit" \
	-o "$work/" ./app/ts-meta ./app/ts-store ./app/ts-sql
rm -rf "$work/src"
rm -rf "$folder"
mv "$work" "$folder"
