"""Compares Leftfold with other coding agents that are installed, on one scripted model server.

Each agent gets one prompt. The server answers with calls that read a small file, one a reply, and
then with a text. Measured are: the time from the start of the process to its first request, the
time from the last byte of a reply to the next request, processor time and peak memory. The agents
take turns, so that a slow phase of the machine meets all of them. Prints a Markdown table.

    python3 tests/benches/peers.py [--rounds 3] [--calls 20] [--agent NAME=PROGRAM ...]

Agents are looked for in PATH: leftfold (also below target/release), codex, opencode, pi. A name that
begins with "leftfold-" is another build of Leftfold: `--agent leftfold-old=PROGRAM`. They run with
settings, home and data folders of their own, and only reach the server of this script.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NAMES = ["leftfold", "codex", "opencode", "pi"]
# an agent that hangs is given up
LIMIT = 180


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, calls):
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls = calls
        self.lock = threading.Lock()
        self.begin()

    def begin(self):
        """Forgets the requests of the last run."""
        with self.lock:
            self.first = self.ended = None
            self.gaps = []

    def handle_error(self, request, client_address):
        pass  # an agent that has ended closes its connections


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer("application/json", json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        arrived = time.monotonic()
        try:
            request = json.loads(body)
        except ValueError:
            return self.answer("application/json", "{}")
        tool = reading_call(request.get("tools") or [])
        is_turn = tool is not None  # a request for a title has no tools
        if is_turn:
            with self.server.lock:
                self.server.first = self.server.first or arrived
                if self.server.ended is not None:
                    self.server.gaps.append(arrived - self.server.ended)
                    self.server.ended = None
        if self.path.endswith("/responses"):
            made = sum(item.get("type") == "function_call" for item in request["input"])
            events = responses(tool if made < self.server.calls else None, made)
        else:
            made = sum(bool(message.get("tool_calls")) for message in request.get("messages", []))
            events = chat(tool if made < self.server.calls else None, made)
        self.answer("text/event-stream", "".join(events))
        if is_turn:
            with self.server.lock:
                self.server.ended = time.monotonic()

    def answer(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def reading_call(tools):
    """The name and arguments of a call that reads `a.txt` with one of these tools."""
    known = {}
    for tool in tools:
        function = tool.get("function", tool)
        schema = function.get("parameters") or {}
        known[function.get("name")] = schema.get("properties") or {}
    for name in ("read", "read_file", "view"):
        for argument in known.get(name, {}):
            if "path" in argument.lower():
                return name, {argument: "a.txt"}
    for name in ("exec_command", "shell_command", "shell", "bash"):
        for argument in ("cmd", "command"):
            schema = known.get(name, {}).get(argument)
            if schema is not None:
                command = ["cat", "a.txt"] if schema.get("type") == "array" else "cat a.txt"
                return name, {argument: command}
    return None


def chat_event(delta, finish=None, **more):
    """A piece of a reply of the Chat Completions API."""
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return f"data: {json.dumps(chunk)}\n\n"


def chat(tool, made):
    """The reply of the Chat Completions API."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield chat_event({"role": "assistant", "content": "I look at it."})
    if tool:
        name, arguments = tool
        arguments = vary(arguments, made)
        function = {"name": name, "arguments": json.dumps(arguments)}
        yield chat_event({"tool_calls": [{"index": 0, "id": f"call_{made}", "type": "function", "function": function}]})
    yield chat_event({}, "tool_calls" if tool else "stop", usage=usage)
    yield "data: [DONE]\n\n"


def responses(tool, made):
    """The reply of the Responses API."""
    def event(kind, **more):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    yield event("response.created", response={"id": f"r{made}"})
    if tool:
        name, arguments = tool
        item = {"type": "function_call", "id": f"f{made}", "call_id": f"call_{made}", "name": name,
                "arguments": json.dumps(vary(arguments, made))}
    else:
        item = {"type": "message", "id": "m", "role": "assistant",
                "content": [{"type": "output_text", "text": "Done."}]}
    yield event("response.output_item.done", output_index=0, item=item)
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    yield event("response.completed", response={"id": f"r{made}", "usage": usage})


def vary(arguments, made):
    """Other arguments for each call: agents stop a model that repeats itself."""
    def varied(value):
        if isinstance(value, list):
            return [*value[:-1], varied(value[-1])]
        return value.replace("a.txt", f"file{made}.txt")

    return {name: varied(value) for name, value in arguments.items()}


def command(name, program, url, home):
    """The command that runs one prompt, and its environment."""
    prompt = "Read the files, one after the other."
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LOCAL_KEY": "k",
           "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "data"),
           "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state")}
    models = {"m": {"limit": {"context": 200_000, "output": 8_000}}}
    options = {"baseURL": url, "apiKey": "k"}
    if name.startswith("leftfold"):
        provider = {"wire": "openai-chat", "options": options, "models": models}
        env["LEFTFOLD_CONFIG_CONTENT"] = json.dumps({"model": "local/m", "provider": {"local": provider}})
        return [program, "run", "--format", "json", prompt], env
    if name == "opencode":
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "local", "options": options,
                    "models": {"m": {"name": "m", "tool_call": True, **models["m"]}}}
        settings = {"model": "local/m", "provider": {"local": provider}, "share": "disabled",
                    "autoupdate": False, "permission": {"*": "allow"}}
        env |= {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
        return [program, "run", "--format", "json", "-m", "local/m", prompt], env
    if name == "codex":
        env["CODEX_HOME"] = str(home / "codex")
        (home / "codex").mkdir(exist_ok=True)
        provider = f'{{name="local",base_url="{url}",wire_api="responses",env_key="LOCAL_KEY"}}'
        return [program, "exec", "--json", "--skip-git-repo-check", "-m", "m",
                "--dangerously-bypass-approvals-and-sandbox", "-c", 'model_provider="local"',
                "-c", f"model_providers.local={provider}", prompt], env
    agent = home / "pi"
    agent.mkdir(exist_ok=True)
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "k",
                "models": [{"id": "m", "contextWindow": 200_000, "maxTokens": 8_000}]}
    (agent / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
    env |= {"PI_CODING_AGENT_DIR": str(agent), "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}
    return [program, "-p", "--mode", "json", "--provider", "local", "--model", "m", prompt], env


def run(name, program, server, folder):
    """Runs an agent once. The result is its figures, or why there are none."""
    home = folder / name
    home.mkdir(exist_ok=True)
    url = f"http://127.0.0.1:{server.server_port}/v1"
    args, env = command(name, program, url, home)
    server.begin()
    with open(folder / f"{name}.log", "wb") as log:
        began = time.monotonic()
        child = subprocess.Popen(args, env=env, cwd=folder / "project", stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log, start_new_session=True)
        timer = threading.Timer(LIMIT, child.kill)
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        ended = time.monotonic()
        child.returncode = os.waitstatus_to_exitcode(status)
        timer.cancel()
    if server.first is None or len(server.gaps) < server.calls:
        tail = (folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
        last = f": {tail[0][:200]}" if tail else ""
        return f"it made {len(server.gaps)} of {server.calls} calls and ended with {child.returncode}{last}"
    return {
        "first request": (server.first - began) * 1000,
        "between turns": statistics.median(server.gaps) * 1000,
        "whole run": (ended - began) * 1000,
        "processor time": (used.ru_utime + used.ru_stime) * 1000,
        "peak memory": used.ru_maxrss / 1024,
    }


def programs(chosen):
    named = dict(agent.split("=", 1) for agent in chosen)
    root = Path(__file__).resolve().parents[2]
    built = root / "target/release/leftfold"
    if built.is_file():
        named.setdefault("leftfold", str(built))
    for name in [*NAMES, *(name for name in named if name.startswith("leftfold-"))]:
        program = named.get(name) or shutil.which(name)
        if program:
            yield name, program
        else:
            print(f"{name} is not installed: left out", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--agent", action="append", default=[], metavar="NAME=PROGRAM")
    chosen = parser.parse_args()
    agents = list(programs(chosen.agent))
    server = Server(chosen.calls)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = {name: [] for name, _ in agents}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "project").mkdir()
        for number in range(chosen.calls):
            (folder / f"project/file{number}.txt").write_text("hello\n")
        # the first run of each prepares its folders, and is not counted
        for counted in range(chosen.rounds + 1):
            for name, program in agents:
                figures = run(name, program, server, folder)
                if isinstance(figures, str):
                    print(f"{name}: {figures}", file=sys.stderr)
                elif counted:
                    found[name].append(figures)
    print(f"Medians of {chosen.rounds} runs with {chosen.calls} calls each, on {os.cpu_count()} processors.\n")
    print("| agent | first request | between turns | whole run | processor time | peak memory |")
    print("| --- | --- | --- | --- | --- | --- |")
    units = {"peak memory": ("MB", 0), "between turns": ("ms", 1)}
    for name, runs in found.items():
        if not runs:
            continue
        cells = []
        for what in runs[0]:
            unit, digits = units.get(what, ("ms", 0))
            cells.append(f"{statistics.median(one[what] for one in runs):,.{digits}f} {unit}")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
