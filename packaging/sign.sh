#!/bin/sh
# Signs the list of checksums in target/packages with minisign: packaging/sign.sh SECRET_KEY_FILE
#
# The owner makes the key once, with `minisign -G -p packaging/minisign.pub -s SECRET_KEY_FILE`, and commits the public part.
# `packaging/build` then puts it into install.sh, so the packages are built after that.
set -eu
cd "$(dirname "$0")/.."

secret=${1:?names the secret key: packaging/sign.sh SECRET_KEY_FILE}
public=packaging/minisign.pub
[ -f "$secret" ] || { echo "sign.sh: there is no key $secret" >&2; exit 1; }
[ -f "$public" ] || { echo "sign.sh: $public is missing: the owner makes it with minisign -G" >&2; exit 1; }
cd target/packages
grep -Fq "key='$(tail -n 1 "../../$public")'" install.sh || { echo "sign.sh: install.sh has another key: build again" >&2; exit 1; }
sha256sum --quiet -c SHA256SUMS
minisign -Sm SHA256SUMS -s "$secret"
minisign -Vm SHA256SUMS -p "../../$public"
