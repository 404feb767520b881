#!/bin/sh
# Releases a made-up application into a directory and updates it: key, two
# versions, check and download as an updater, rollback, log. Everything lies in
# a temporary folder, which is removed at the end.
set -eu
cd "$(dirname "$0")/../.."
for name in $(env | sed -n 's/^\(TSMON_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
unset TAURI_SIGNING_PRIVATE_KEY TAURI_SIGNING_PRIVATE_KEY_PATH TAURI_SIGNING_PRIVATE_KEY_PASSWORD
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP PIPE

go build -o "$work/tsmon" ./cmd/tsmon
PATH=$work:$PATH
cd "$work"

say() { if [ -t 1 ]; then printf '\n\033[1m$ %s\033[0m\n' "$*"; else printf '\n$ %s\n' "$*"; fi; }
run() { say "$*"; "$@"; }

# The bundles that the Tauri bundler would have made.
for version in 1.0.0 1.1.0; do
	mkdir -p "bundle-$version"
	for name in "App_${version}_x64_en-US.msi.zip" App_universal.app.tar.gz "App_${version}_amd64.AppImage.tar.gz"; do
		head -c 4000000 /dev/urandom >"bundle-$version/$name"
	done
done

run tsmon keys generate --no-password --output app.key
export TSMON_REFRESH=100ms # so that publishing need not wait to see it served
export TSMON_STORAGE="$work/releases" TSMON_DATA="$work/data" TSMON_TRUSTED_KEYS=app.key.pub TAURI_SIGNING_PRIVATE_KEY=app.key

# Clients fetch the directory through a web server; ours serves it as it is.
say "tsmon serve &"
tsmon serve --listen 127.0.0.1:0 2>serve.log &
server=$!
tries=0
until grep -q 'serving http' serve.log; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] && kill -0 "$server" || { cat serve.log; exit 1; }
	sleep 0.1
done
TSMON_PUBLIC_URL=$(sed -n 's|^serving \(http://[^ ]*\)/$|\1/updates|p' serve.log)
export TSMON_PUBLIC_URL
echo "$TSMON_PUBLIC_URL"
endpoint=$TSMON_PUBLIC_URL/stable/latest.json

run tsmon release publish --version 1.0.0 --notes 'First release' bundle-1.0.0
run tsmon release publish --version 1.1.0 --notes 'Faster charts' bundle-1.1.0
run tsmon update check --endpoint "$endpoint" --current 1.0.0 --target linux-x86_64
run tsmon update download --endpoint "$endpoint" --current 1.0.0 --target linux-x86_64 --output App.AppImage.tar.gz
cmp App.AppImage.tar.gz bundle-1.1.0/App_1.1.0_amd64.AppImage.tar.gz
run tsmon release rollback --channel stable --reason 'charts are empty'
run tsmon update check --endpoint "$endpoint" --current 1.0.0 --target linux-x86_64
run tsmon channel log stable
run tsmon channel verify stable
