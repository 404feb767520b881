#!/bin/sh
# Writes man pages and completions to a folder. Usage: generate.sh FOLDER
set -eu
folder=${1:?usage: generate.sh FOLDER}
rm -rf "$folder"
mkdir -p "$folder/man" "$folder/man.gz" "$folder/completion"
go build -trimpath -buildvcs=false -ldflags "-X main.linkedVersion=$VERSION" -o bin/tsmon ./cmd/tsmon
bin/tsmon man "$folder/man"
for page in "$folder"/man/*.1; do
	gzip -9n < "$page" > "$folder/man.gz/${page##*/}.gz"
done
bin/tsmon completion bash > "$folder/completion/tsmon.bash"
bin/tsmon completion zsh > "$folder/completion/_tsmon"
bin/tsmon completion fish > "$folder/completion/tsmon.fish"
bin/tsmon completion powershell > "$folder/completion/tsmon.ps1"
