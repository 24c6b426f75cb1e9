#!/bin/sh
# Makes what an executor needs to be reached over TLS, in a folder that does not exist yet:
#
#   sh examples/fleet/certificate.sh FOLDER HOST...
#
# A HOST is a name or an address, by which nodes reach the executor.
#
#   ca.pem               for the nodes: `ca` in `executors` of their settings
#   token                for the nodes and the executor
#   cert.pem, key.pem    for the executor
#
# The key of the authority is thrown away: for another host, run this again. Everything is valid for a year.
set -eu

folder=$1
shift
names=
for host; do
    case $host in
        *[!0-9.]*) kind=DNS ;;
        *) kind=IP ;;
    esac
    names=${names:+$names,}$kind:$host
done
umask 077
mkdir "$folder"
authority=$(mktemp)
trap 'rm -f "$authority" "$folder/request.pem"' EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=Leftfold executors" \
    -addext keyUsage=critical,keyCertSign -keyout "$authority" -out "$folder/ca.pem" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -addext "subjectAltName=$names" \
    -keyout "$folder/key.pem" -out "$folder/request.pem" 2>/dev/null
openssl x509 -req -in "$folder/request.pem" -CA "$folder/ca.pem" -CAkey "$authority" -days 365 -copy_extensions copy \
    -out "$folder/cert.pem" 2>/dev/null
openssl rand -hex 32 >"$folder/token"
