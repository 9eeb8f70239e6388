"""Runs the `dayport` command as a user would: its local S3 as a process of its own, and the runs against it."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "localsecret", "AWS_REGION": "us-east-1"}


def free_port():
    """A port of the loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(port):
    """The environment of a client of the local S3 on that port, without another account's or configuration's variables."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DAYPORT_"))}
    return {**own, **CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


@contextlib.contextmanager
def serving(dayport, root, port):
    """`dayport local` over a folder, answering; ended with the block."""
    process = subprocess.Popen(
        [dayport, "local", "--root", root, "--port", str(port)], env=environment(port), stdin=subprocess.DEVNULL, stdout=sys.stderr
    )
    try:
        until = time.monotonic() + 30
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"`dayport local` ended with {process.returncode} before it answered")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if time.monotonic() > until:
                raise RuntimeError("`dayport local` did not answer within 30 seconds")
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_command(dayport, config, date):
    """The command line of one day's run."""
    return [dayport, "run", "--config", config, "--date", date, "--output", "json"]


def answer_of(printed):
    """The runs of an answer, each of them committed; anything else is an error that shows the answer."""
    runs = json.loads(printed)["runs"]
    for run in runs:
        if run["state"] != "committed":
            raise RuntimeError(f"destination {run.get('destination')} answered {run['state']}: {run.get('error', '')}")
    return runs
