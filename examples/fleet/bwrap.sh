#!/bin/sh
# An executor in a poor man's container: bubblewrap shows it the system's programs, a workspace and its own state, and nothing
# else of this machine. Its commands cannot see your home folder, your keys or other processes.
#
#   sh examples/fleet/certificate.sh FOLDER 127.0.0.1
#   sh examples/fleet/bwrap.sh FOLDER WORKSPACE [HOST:PORT]
#
# FOLDER also keeps the executor's state: start it again with the same one. LEFTFOLD names a program that is not in PATH. By
# default it listens on 127.0.0.1:7443. The network is the machine's: commands may use it.
set -eu

folder=$(realpath "$1")
workspace=$(realpath "$2")
listen=${3:-127.0.0.1:7443}
leftfold=$(realpath "$(command -v "${LEFTFOLD:-leftfold}")")
mkdir -p "$folder/state"

cat <<END
In the settings of a node:

    { "executors": { "work": { "address": "$listen", "token": "{file:$folder/token}", "ca": "$folder/ca.pem" } } }

and then: leftfold run --executor work "What is here?"

END

set -- --ro-bind /usr /usr --ro-bind /etc /etc
for link in bin sbin lib lib32 lib64; do
    # a link to /usr on most systems, a folder on others
    if [ -L "/$link" ]; then
        set -- "$@" --symlink "$(readlink "/$link")" "/$link"
    elif [ -d "/$link" ]; then
        set -- "$@" --ro-bind "/$link" "/$link"
    fi
done
# a name server may be known only by a file below /run
resolver=$(realpath /etc/resolv.conf 2>/dev/null || true)
case $resolver in
    /run/*) set -- "$@" --ro-bind "$resolver" "$resolver" ;;
esac
exec bwrap "$@" --proc /proc --dev /dev --tmpfs /tmp --dir /home/worker \
    --ro-bind "$leftfold" /opt/bin/leftfold --ro-bind "$folder" /executor --bind "$folder/state" /executor/state \
    --bind "$workspace" /work --chdir /work \
    --unshare-user --unshare-pid --unshare-ipc --unshare-uts --hostname workspace --new-session --die-with-parent \
    --clearenv --setenv PATH /opt/bin:/usr/local/bin:/usr/bin:/bin --setenv HOME /home/worker --setenv LANG C.UTF-8 \
    leftfold executor --listen "$listen" --tls-cert /executor/cert.pem --tls-key /executor/key.pem \
    --token-file /executor/token --workspace /work --state /executor/state --sandbox external
