#!/bin/sh
# A plugin for Leftfold: tells the model with each prompt which branch the project is on, and commands
# that they are run by an agent.
#
# In `leftfold.json`, as a list of the program and its arguments:
#
#     "plugin": [["sh", "./examples/plugins/branch.sh"]]
#
# Messages are JSON, one a line; a shell has no parser for it, so this takes them apart by hand. It can
# because each line begins `{"jsonrpc":"2.0","id":N,"method":"M"`, and nothing before these two can hold
# anything else. What is written back has to be JSON again: text from outside is cut down to plain
# characters.

answer() {
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"
}

while IFS= read -r line; do
    case $line in
    '{"jsonrpc":"2.0","id":'*) ;;
    *) continue ;; # news: nothing to be answered
    esac
    id=${line#'{"jsonrpc":"2.0","id":'}
    id=${id%%,*}
    method=${line#*'"method":"'}
    method=${method%%'"'*}
    case $method in
    initialize)
        # plugins are started in the session's folder
        answer "$id" '{"name":"branch","hooks":["chat.message","shell.env"]}'
        ;;
    chat.message)
        branch=$(git symbolic-ref --short -q HEAD 2>/dev/null | tr -cd 'A-Za-z0-9/._-')
        if [ -n "$branch" ]; then
            answer "$id" "{\"append\":\"(The project is on the branch $branch.)\"}"
        else
            answer "$id" '{}'
        fi
        ;;
    shell.env)
        answer "$id" '{"env":{"RUN_BY_AGENT":"leftfold"}}'
        ;;
    *)
        answer "$id" '{}'
        ;;
    esac
done
