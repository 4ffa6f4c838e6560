#!/usr/bin/env python3
"""Builds and runs all tests of the workspace: several programs side by side.

cargo runs one test program after another, and most of them wait for servers, disks and clocks. As
many of these run side by side as there are cores, the ones that took longest the last time first.
Simulations, whose clock is not that of the machine, begin with them and take what they leave. Each
runs as cargo would run it, and its output comes in one piece. The exit code is 1 if one of them
fails or takes longer than it may.
"""

import atexit
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# Seconds that each program took the last time, by its name.
TIMES = TARGET / "test_seconds.json"
SECONDS_MAX = 900
# Those of simulations, whose programs wait for the others.
SIMULATED_SECONDS_MAX = 1800
SIDE_BY_SIDE = os.cpu_count() or 1
# How many of those that took longest are named at the end.
SHOWN = 15
# The crate of simulations, and how far its programs give way.
SIMULATED = "sim"
NICE = 15


class Program:
    """A test program, and how its run ended."""

    def __init__(self, message):
        self.path = message["executable"]
        self.folder = pathlib.Path(message["manifest_path"]).parent
        source = pathlib.Path(message["target"]["src_path"]).relative_to(self.folder)
        self.name = f"{self.folder.name} {source}"
        self.gives_way = self.folder.name == SIMULATED
        self.seconds_max = SIMULATED_SECONDS_MAX if self.gives_way else SECONDS_MAX
        self.output = self.process = self.began = self.code = self.usage = None

    def start(self):
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        environment = {**os.environ, "CARGO_MANIFEST_DIR": str(self.folder)}
        self.began = time.monotonic()
        command = ["nice", f"-n{NICE}", self.path] if self.gives_way else [self.path]
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=self.output, stderr=subprocess.STDOUT)

    def seconds(self):
        return time.monotonic() - self.began

    def has_ended(self):
        """Also tells what it took of processors, with the servers that it has started."""
        is_late = self.seconds() > self.seconds_max
        if is_late:
            self.process.kill()
        pid, status, self.usage = os.wait4(self.process.pid, 0 if is_late else os.WNOHANG)
        if pid == 0:
            return False
        self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
        if is_late:
            self.output.write(f"\nerror: killed after {self.seconds_max} s\n")
        return True

    def tell(self):
        print(f"     Running {self.name} ({self.path})", flush=True)
        self.output.seek(0)
        sys.stdout.write(self.output.read())
        sys.stdout.flush()
        self.output.close()


def build():
    """All test programs; ends with cargo's exit code if one does not compile."""
    command = ["cargo", "test", "--locked", "--workspace", "--no-run",
               "--message-format", "json-render-diagnostics"]
    cargo = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if cargo.returncode != 0:
        sys.exit(cargo.returncode)
    messages = (json.loads(line) for line in cargo.stdout.splitlines())
    return [Program(message) for message in messages
            if message["reason"] == "compiler-artifact" and message["profile"]["test"]
            and message["executable"]]


def times():
    try:
        return json.loads(TIMES.read_text())
    except (OSError, ValueError):
        return {}


def main():
    known = times()
    waiting = sorted(build(), key=lambda one: known.get(one.name, SECONDS_MAX))
    running, failed, ended = [], [], []
    # Who stops this stops the programs too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    atexit.register(lambda: [one.process.kill() for one in running])
    while waiting or running:
        busy = sum(not one.gives_way for one in running)
        begun = [one for one in waiting if one.gives_way]
        others = [one for one in waiting if not one.gives_way]
        begun += others[len(others) - max(SIDE_BY_SIDE - busy, 0):]
        for one in begun:
            waiting.remove(one)
            running.append(one)
            one.start()
        for one in [one for one in running if one.has_ended()]:
            running.remove(one)
            known[one.name] = round(one.seconds(), 2)
            if one.code != 0:
                failed.append(one.name)
            one.tell()
            ended.append((known[one.name], one.usage.ru_utime + one.usage.ru_stime, one.name))
        time.sleep(0.05)
    TIMES.write_text(json.dumps(known, indent=1, sort_keys=True))
    print(f"\n{'seconds':>8} {'of a processor':>15}")
    for seconds, processor_seconds, name in sorted(ended, reverse=True)[:SHOWN]:
        print(f"{seconds:8.0f} {processor_seconds:15.0f}  {name}")
    for name in failed:
        print(f"error: {name} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
