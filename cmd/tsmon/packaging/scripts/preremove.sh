#!/bin/sh
# Stops the service before the package goes; an upgrade does not.
set -e
case "${1-}" in
upgrade | 1) exit ;; # deb, rpm
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now tsmon.service
fi
