#!/usr/bin/env python3
"""A plugin for Leftfold: stops the model from editing generated files, and gives it a tool that counts
words, which the command `/words FILE` uses.

In `leftfold.json`, as a list of the program and its arguments:

    "plugin": [["python3", "./examples/plugins/guard.py"]]

It speaks JSON-RPC 2.0 over standard input and output, one message on a line, and needs only Python's
standard library. Text for people must go to standard error.
"""

import json
import os
import sys

# Text near the top of a file that marks it as generated.
MARKS = ("@generated", "DO NOT EDIT")
# Leftfold's tools that change one file; its path is the argument `filePath`.
EDITS = ("edit", "write", "multiedit")


def initialize(params):
    """The first request. It names the project's folder; the answer has our name, hooks and tools."""
    os.chdir(params["directory"])
    return {
        "name": "guard",
        "hooks": ["config", "tool.execute.before"],
        "tools": [
            {
                "name": "count_words",
                "description": "Counts the words of a file of the project.",
                "parameters": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                },
                # It changes nothing, so a call that a crash interrupted may run again.
                "readOnly": True,
            }
        ],
    }


def config(params):
    """Called once with the current settings; answers additions: here a command, if the name is free."""
    if "words" in params["settings"].get("command", {}):
        return {}
    words = {
        "description": "How many words a file has",
        "template": "How many words has $ARGUMENTS? Count them with guard_count_words.",
    }
    return {"command": {"words": words}}


def is_generated(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            head = file.read(2000)
    except OSError:
        return False
    return any(mark in head for mark in MARKS)


def before(params):
    """Called before a call is resolved: `{}` accepts it, `deny` rejects it, `args` changes its arguments."""
    path = params["args"].get("filePath") if isinstance(params["args"], dict) else None
    if params["tool"].lower() in EDITS and isinstance(path, str) and is_generated(path):
        return {"deny": path + " is generated: change what it is made from."}
    return {}


def tool(params):
    """Runs our own tool. An error goes to the model."""
    with open(params["args"]["path"], encoding="utf-8") as file:
        return "%d words" % len(file.read().split())


METHODS = {
    "initialize": initialize,
    "config": config,
    "tool.execute.before": before,
    "tool": tool,
}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification such as `cancel`, which gets no answer
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = METHODS[message["method"]](message.get("params", {}))
        except Exception as error:  # every request needs an answer
            answer["error"] = {"code": -32000, "message": str(error) or repr(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
