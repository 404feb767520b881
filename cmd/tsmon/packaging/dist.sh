#!/bin/sh
# Builds what is released of a version into dist/. Built again from the same commit it
# is the same, byte for byte. Usage: dist.sh VERSION
#
# SOURCE_DATE_EPOCH, COMMIT   time and name of the commit (default: git's)
# TAURI_SIGNING_PRIVATE_KEY…  the key that signs, as in `tsmon help`; without one
#                             nothing is signed
# TOOLS                       folder of goreleaser
# GORELEASER_FLAGS            such as --parallelism 1
set -eu
cd "$(dirname "$0")/../../.."
VERSION=${1:?usage: dist.sh VERSION}
COMMIT=${COMMIT:-$(git rev-parse HEAD)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
COMMIT_DATE=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
export VERSION COMMIT COMMIT_DATE SOURCE_DATE_EPOCH

# shellcheck disable=SC2086 # flags are words
"${TOOLS:-.tools}/goreleaser" release --snapshot --clean ${GORELEASER_FLAGS-}

(cd cmd/tsmon/packaging && go build -o ../../../bin/packager .)
bin/packager sbom "$VERSION" dist
bin/packager image "$VERSION" dist

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
cd dist
files=$(find . -maxdepth 1 -type f -name 'tsmon[-_]*' | sed 's|^\./||' | LC_ALL=C sort)
# shellcheck disable=SC2086 # the names have no spaces
sha256 $files > checksums.txt

if [ -z "${TAURI_SIGNING_PRIVATE_KEY-}${TAURI_SIGNING_PRIVATE_KEY_PATH-}" ]; then
	echo 'not signed: TAURI_SIGNING_PRIVATE_KEY is not set' >&2
	exit
fi
# shellcheck disable=SC2086
../bin/tsmon release sign --version "$VERSION" checksums.txt $files
for file in checksums.txt $files; do # what minisign reads
	base64 -d < "$file.sig" > "$file.minisig"
	rm "$file.sig"
done
