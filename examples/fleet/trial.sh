#!/bin/sh
# Three nodes on one machine that share a throw-away database. Start it with a program of Debian's package `postgresql`:
#
#   pg_virtualenv -o fsync=on -o full_page_writes=on sh examples/fleet/trial.sh
#
# An argument sets the port of the first node. LEFTFOLD names a program that is not in PATH. Interrupt it to end the nodes
# and remove the database.
set -eu

leftfold=${LEFTFOLD:-leftfold}
first=${1:-4101}
LEFTFOLD_STORE=postgresql://$PGUSER@$PGHOST:$PGPORT/$PGDATABASE
export LEFTFOLD_STORE

"$leftfold" fleet init
# each node has a data folder of its own, as on a machine of its own, with the stored keys of the user
home=${LEFTFOLD_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/leftfold}
homes=$(mktemp -d)
nodes=
trap 'kill $nodes 2>/dev/null; wait; rm -r "$homes"' EXIT
trap 'exit 0' INT TERM
for port in "$first" $((first + 1)) $((first + 2)); do
    mkdir "$homes/$port"
    ln -s "$home/auth.json" "$homes/$port/auth.json"
    LEFTFOLD_HOME=$homes/$port "$leftfold" serve --port "$port" &
    nodes="$nodes $!"
done
cat <<END

Nodes: http://127.0.0.1:$first and the two ports after it. Their processes:$nodes.

In another terminal:

    export PGPASSWORD=$PGPASSWORD
    export LEFTFOLD_STORE=$LEFTFOLD_STORE
    leftfold observe --all          # every event, whichever node has the session
    leftfold fleet status           # or: fleet nodes

Open a page, give a long task, and \`kill -9\` the node that has the session, as \`leftfold fleet nodes\` says.
END
wait
