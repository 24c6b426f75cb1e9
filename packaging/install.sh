#!/bin/sh
# Installs Leftfold for the user who runs this, without root:
#
#   install.sh [--prefix DIR] [--version VERSION] [--from ADDRESS]     installs or upgrades; the default is the newest
#   install.sh [--prefix DIR] --remove                                 removes the files that it has installed
#
# It downloads an archive, compares its SHA-256 with the list of the release, and copies the archive's files below the prefix
# (LEFTFOLD_PREFIX, ~/.local). If minisign is installed, it also checks the signature of the list. It changes no file of
# settings and no start-up file of a shell.
set -eu

# a function, so that a script whose download was cut off does nothing
main() {

releases=${LEFTFOLD_RELEASES:-@RELEASES@}
key='@KEY@'
prefix=${LEFTFOLD_PREFIX:-}
version=latest
remove=

say() { printf '%s\n' "$*"; }
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --version | --from) [ $# -ge 2 ] || fail "$1 needs a value" ;;
    esac
    case $1 in
        --prefix) prefix=$2; shift ;;
        --version) version=${2#v}; shift ;;
        --from) releases=$2; shift ;;
        --remove) remove=yes ;;
        -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit ;;
        *) fail "unknown option $1: --prefix, --version, --from and --remove are known" ;;
    esac
    shift
done
case $version in *[!0-9A-Za-z.+-]*) fail "$version is no version" ;; esac
# a copy that was installed manages the folders that it lies in
case $0 in
    */share/leftfold/install.sh) : "${prefix:=$(cd "${0%/install.sh}/../.." && pwd)}" ;;
esac
: "${prefix:=${HOME:?names no home folder: give --prefix}/.local}"
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
files=share/leftfold/files

# Removes the files that stand in the list $1 and not in the list $2.
remove_listed() {
    while IFS= read -r file; do
        case $file in /* | *..*) fail "$1 names $file" ;; esac
        if ! grep -Fqx -e "$file" "$2"; then
            rm -f "$prefix/$file"
            (cd "$prefix" && rmdir -p "$(dirname "$file")" 2>/dev/null) || :
        fi
    done <"$1"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

if [ -n "$remove" ]; then
    [ -f "$prefix/$files" ] || fail "$prefix has no Leftfold that install.sh has installed"
    cp "$prefix/$files" "$work/old"
    remove_listed "$work/old" /dev/null
    say "removed Leftfold from $prefix"
    say "settings stay in ${XDG_CONFIG_HOME:-$HOME/.config}/leftfold, sessions in ${XDG_DATA_HOME:-$HOME/.local/share}/leftfold"
    exit
fi

case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-amd64) arch=x86_64 ;;
    Linux-aarch64 | Linux-arm64) arch=aarch64 ;;
    *) fail "there is no program for $(uname -s) on $(uname -m): build it from source, see docs/install.md" ;;
esac

download() {
    say "downloading $1"
    if command -v curl >/dev/null; then
        curl -fsSL --retry 2 -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1"
    else
        fail "neither curl nor wget is installed"
    fi
}

case $version in
    latest) from=$releases/latest/download ;;
    *) from=$releases/download/v$version ;;
esac
download "$from/SHA256SUMS" "$work/SHA256SUMS" || fail "there is no release at $from"
if [ -n "$key" ] && command -v minisign >/dev/null; then
    download "$from/SHA256SUMS.minisig" "$work/SHA256SUMS.minisig" || fail "the release is not signed"
    minisign -Vqm "$work/SHA256SUMS" -P "$key" || fail "the signature of SHA256SUMS is wrong"
    say "the signature is right"
else
    say "the signature is not checked: minisign or the key is missing"
fi
pattern="^[0-9a-f]{64}  leftfold-[0-9A-Za-z.+-]+-$arch-linux-musl\.tar\.gz$"
line=$(grep -E "$pattern" "$work/SHA256SUMS") || fail "SHA256SUMS names no archive for $arch"
[ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "SHA256SUMS names several archives for $arch"
archive=${line#*  }
download "$from/$archive" "$work/$archive" || fail "$from has no $archive"
found=$(sha256sum "$work/$archive")
[ "${found%% *}" = "${line%% *}" ] || fail "$archive has the SHA-256 ${found%% *}, and not ${line%% *}: nothing was installed"
say "the SHA-256 is right"

mkdir "$work/new"
tar -xzf "$work/$archive" -C "$work/new"
new=$work/new/${archive%.tar.gz}
# the next upgrade asks where this one asked
sed "s|^releases=.*|releases=\${LEFTFOLD_RELEASES:-$releases}|" "$new/share/leftfold/install.sh" >"$work/install.sh"
cat "$work/install.sh" >"$new/share/leftfold/install.sh"
[ ! -f "$prefix/$files" ] || cp "$prefix/$files" "$work/old"
while IFS= read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # a running program keeps its old file
    cp -p "$new/$file" "$prefix/$file.new$$"
    mv -f "$prefix/$file.new$$" "$prefix/$file"
done <"$new/$files"
[ ! -f "$work/old" ] || remove_listed "$work/old" "$new/$files"
say "installed $("$prefix/bin/leftfold" --version) below $prefix"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "add it to your PATH:  export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
say "try it without a key:  leftfold demo"
say "remove it:  sh $prefix/share/leftfold/install.sh --remove"

}

main "$@"
