#!/usr/bin/env python3
"""A plugin for Leftfold: keeps the model's hands off generated files, and counts words for it, which
the command `/words FILE` asks for.

In `leftfold.json`, as a list of the program and its arguments:

    "plugin": [["python3", "./examples/plugins/guard.py"]]

It speaks JSON-RPC 2.0 over standard input and output, one message a line, and needs nothing but
Python's own library. Whatever it prints for people has to go to standard error.
"""

import json
import os
import sys

# Text near the top of a file by which whoever has generated it says so.
MARKS = ("@generated", "DO NOT EDIT")
# Tools of Leftfold's that change one file, whose path is the argument `filePath`.
EDITS = ("edit", "write", "multiedit")


def initialize(params):
    """The first question: where we are. The answer says who we are and what we want."""
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
                # it changes nothing, so a call that a crash has cut off may be made again
                "readOnly": True,
            }
        ],
    }


def config(params):
    """Once, with the settings in force: those that we add. Here a command, if the name is free."""
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
    """Before a call is looked into: `{}` lets it be, `deny` forbids it, `args` changes it."""
    path = params["args"].get("filePath") if isinstance(params["args"], dict) else None
    if params["tool"].lower() in EDITS and isinstance(path, str) and is_generated(path):
        return {"deny": path + " is generated: change what it is made from."}
    return {}


def tool(params):
    """A call of our own tool. An error here is told to the model."""
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
            continue  # news, such as `cancel`: nothing to be answered
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = METHODS[message["method"]](message.get("params", {}))
        except Exception as error:  # whatever it is, the answer must not stay out
            answer["error"] = {"code": -32000, "message": str(error) or repr(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
