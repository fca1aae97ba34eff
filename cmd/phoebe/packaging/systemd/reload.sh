#!/bin/sh
# Units came, changed or went: systemd reads them again. Nothing is started, stopped or enabled.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
