#!/bin/sh
# A plugin for Leftfold: adds the project's branch to each prompt, and sets a variable for commands that
# says that an agent runs them.
#
# In `leftfold.json`, as a list of the program and its arguments:
#
#     "plugin": [["sh", "./examples/plugins/branch.sh"]]
#
# Messages are JSON, one on a line. A shell has no JSON parser, so this script takes them apart by hand,
# which works because each line begins with `{"jsonrpc":"2.0","id":N,"method":"M"`. Answers must be valid
# JSON, so text from outside is reduced to plain characters.

answer() {
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"
}

while IFS= read -r line; do
    case $line in
    '{"jsonrpc":"2.0","id":'*) ;;
    *) continue ;; # a notification, which gets no answer
    esac
    id=${line#'{"jsonrpc":"2.0","id":'}
    id=${id%%,*}
    method=${line#*'"method":"'}
    method=${method%%'"'*}
    case $method in
    initialize)
        # A plugin starts in an empty folder, and learns the session's. One with `"` or `\` in its name is not found.
        directory=${line#*'"directory":"'}
        directory=${directory%%'"'*}
        answer "$id" '{"name":"branch","hooks":["chat.message","shell.env"]}'
        ;;
    chat.message)
        branch=$(git -C "$directory" symbolic-ref --short -q HEAD 2>/dev/null | tr -cd 'A-Za-z0-9/._-')
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
