#!/bin/sh
# Makes systemd read added, changed and removed units. Nothing is started, stopped or enabled.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
