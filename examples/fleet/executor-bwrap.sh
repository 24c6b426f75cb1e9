#!/bin/sh
# An executor in a container of the poor: bwrap gives it the workspace, its state and the files of TLS, and nothing else
# that can be changed. Commands that it runs are in there too, so `--sandbox external` is true.
#
#   WORKSPACE=~/src/app STATE=~/executor-state TLS=~/executor-tls sh executor-bwrap.sh
#
# TLS is a folder with cert.pem, key.pem and token. Commands can read it there; use a container with a sandbox of
# Leftfold's own (`--sandbox on`) where they must not.
set -eu
: "${WORKSPACE:?the folder where calls work}" "${STATE:?a folder that is kept over restarts}" "${TLS:?a folder with cert.pem, key.pem and token}"
exec bwrap --die-with-parent --unshare-user --unshare-pid --unshare-ipc --unshare-uts \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --ro-bind /etc /etc --proc /proc --dev /dev --tmpfs /tmp \
    --bind "$WORKSPACE" /work --bind "$STATE" /state --ro-bind "$TLS" /tls \
    --ro-bind "${LEFTFOLD:-$(command -v leftfold)}" /leftfold \
    --chdir /work --clearenv --setenv PATH /usr/bin:/bin --setenv HOME /work --setenv LEFTFOLD_HOME /state \
    /leftfold executor --listen "${LISTEN:-0.0.0.0:7443}" --workspace /work --state /state --sandbox external \
    --tls-cert /tls/cert.pem --tls-key /tls/key.pem --token-file /tls/token
