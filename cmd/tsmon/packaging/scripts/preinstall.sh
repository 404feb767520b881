#!/bin/sh
# Creates the user that tsmon.service runs as.
set -e
if ! id -u tsmon >/dev/null 2>&1; then
	if command -v useradd >/dev/null; then
		useradd --system --user-group --home-dir /var/lib/tsmon --no-create-home --shell /usr/sbin/nologin tsmon
	else # Alpine
		addgroup -S tsmon
		adduser -S -D -H -h /var/lib/tsmon -s /sbin/nologin -G tsmon tsmon
	fi
fi
