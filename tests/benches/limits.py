"""Measures Leftfold where it could be slow: a turn of 1,000 steps, a model that streams 1,000 pieces
a second, a repository of 200,000 files. With several programs it measures them in turns, to compare
versions.

    python3 tests/benches/limits.py [--steps 1000] [--files 200000] [PROGRAM ...]

The program is target/release/leftfold if none is given. Sessions of any length are measured by
`cargo bench --bench replay`, lists of sessions by `cargo bench --bench sessions`.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import peers

PIECES = 1_000
SECONDS = 5


class Watching(peers.Server):
    """Notes the processor time that the agent had used at each request."""

    def begin(self):
        super().begin()
        self.pid, self.used = None, []

    def arrived(self):
        if self.pid:
            self.used.append(processor_time(self.pid))


class Handler(peers.Handler):
    def do_POST(self):
        self.server.arrived()
        super().do_POST()


def processor_time(pid):
    """Seconds of processor time that the threads of a process have used, from the scheduler."""
    used = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            used += int(thread.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            pass
    return used / 1e9


def start(program, server, folder, *more):
    args, env = peers.command("leftfold", program, f"http://127.0.0.1:{server.server_port}/v1", folder)
    return subprocess.Popen([*args[:-1], *more, args[-1]], env=env, cwd=folder / "project",
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def steps(program, folder, count):
    """Processor time of a late step, against an early one."""
    server = serve(count)
    child = start(program, server, folder, "--max-steps", str(count + 10))
    server.pid = child.pid
    assert child.wait() == 0 and len(server.used) >= count, f"{len(server.used)} of {count} steps"
    spent = [after - before for before, after in zip(server.used, server.used[1:])]
    server.shutdown()
    early, late = statistics.median(spent[5:25]), statistics.median(spent[count - 30:count - 5])
    return f"step 10: {early * 1000:.2f} ms of processor time, step {count}: {late / early:.2f} times as much"


def serve(calls):
    server = Watching(calls)
    server.RequestHandlerClass = Handler
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Streaming(peers.Handler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        began = time.monotonic()
        before = processor_time(self.server.pid)
        for n in range(PIECES * SECONDS):
            self.wfile.write(peers.chat_event({"content": f"word{n} "}).encode())
            self.wfile.flush()
            time.sleep(max(0, began + (n + 1) / PIECES - time.monotonic()))
        took = time.monotonic() - began
        self.server.share = (processor_time(self.server.pid) - before) / took
        self.wfile.write((peers.chat_event({}, "stop") + "data: [DONE]\n\n").encode())
        self.close_connection = True


def streaming(program, folder):
    """The part of a processor that a fast stream takes."""
    server = serve(0)
    server.RequestHandlerClass = Streaming
    child = start(program, server, folder)
    server.pid = child.pid
    assert child.wait() == 0
    server.shutdown()
    return f"{PIECES} pieces a second: {server.share * 100:.1f} % of a processor (at most 10)"


def repository(program, folder):
    """Start and searches in a large repository."""
    server = serve(0)
    server.begin()
    began = time.monotonic()
    assert start(program, server, folder).wait() == 0
    found = [f"first request after {(server.first - began) * 1000:.0f} ms"]
    server.shutdown()
    for name, arguments in [("glob", {"pattern": "**/*7.rs"}), ("grep", {"pattern": "number_1999\\d\\d"})]:
        _, env = peers.command("leftfold", program, "http://127.0.0.1:9/v1", folder)
        began = time.monotonic()
        subprocess.run([program, "tool", name, "--args", json.dumps(arguments)], env=env, cwd=folder / "project",
                       stdout=subprocess.DEVNULL, check=True)
        found.append(f"{name} {(time.monotonic() - began) * 1000:.0f} ms")
    return ", ".join(found)


def grow(project, files):
    for n in range(files):
        folder = project / f"d{n % 1000}"
        if n < 1000:
            folder.mkdir()
        (folder / f"f{n}.rs").write_text(f"fn number_{n}() {{}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    chosen = parser.parse_args()
    built = Path(__file__).resolve().parents[2] / "target/release/leftfold"
    programs = [os.path.abspath(program) for program in chosen.programs or [built]]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        (small / "project").mkdir(parents=True)
        (large / "project").mkdir(parents=True)
        for n in range(chosen.steps):
            (small / f"project/file{n}.txt").write_text("hello\n")
        grow(large / "project", chosen.files)
        for _ in range(chosen.rounds):
            for program in programs:
                print(program)
                print(f"  {steps(program, small, chosen.steps)}")
                print(f"  {streaming(program, small)}")
                print(f"  {chosen.files} files: {repository(program, large)}", flush=True)


if __name__ == "__main__":
    main()
