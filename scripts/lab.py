"""What the scripts share: where things are, free ports, and processes that end with the script whatever happens."""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLI = ROOT / "target/release/dayport"
ARTEFACT = ROOT / "target/lambda/dayport-lambda/bootstrap"
CONFIG = ROOT / "demo/dayport.toml"
DATE = "2026-01-15"


def stop_on_signals():
    """Makes a polite kill an exception, so that `finally` runs and stops what was started."""

    def leave(number, _frame):
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(endpoint=None, **more):
    """The environment for a child: never the user's own AWS account, only what is on this machine."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DAYPORT_"))}
    env.update(
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_REGION="us-east-1",
        AWS_ACCESS_KEY_ID="local",
        AWS_SECRET_ACCESS_KEY="localsecret",
    )
    if endpoint:
        env["AWS_ENDPOINT_URL"] = endpoint
    env.update({name: str(value) for name, value in more.items()})
    return env


@contextlib.contextmanager
def running(argv, log, env, port=None, seconds=20):
    """A process in a group of its own, ready when `port` takes connections; the whole group ends with the block."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=ROOT,
            start_new_session=True,
        )
    # unittest cleans up after no SystemExit in a class's set-up: what it was to end then ends with the script.
    end_it = functools.partial(end, process)
    atexit.register(end_it)
    try:
        if port:
            wait_for_port(process, port, log, seconds)
        yield process
    finally:
        end_it()
        atexit.unregister(end_it)


def end(process):
    """Ends a process and its group, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
            break


def wait_for_port(process, port, log, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"{process.args[0]} ended at once with {process.returncode}:\n{tail(log)}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise SystemExit(f"{process.args[0]} took no connection on port {port} in {seconds} s:\n{tail(log)}")


def tail(path, lines=60):
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def local_s3(root):
    """`dayport local` over `root`, with a bucket for each that the demo's configuration names; gives its endpoint."""
    config = tomllib.loads(CONFIG.read_text())
    for place in [config["staging"], config["state"], *config["destination"]]:
        (root / place["s3_bucket"]).mkdir(parents=True, exist_ok=True)
    port = free_port()
    argv = [CLI, "local", "--root", root, "--port", port]
    with running(argv, root.parent / "local.log", environment(), port):
        yield f"http://127.0.0.1:{port}"


def destinations():
    return tomllib.loads(CONFIG.read_text())["destination"]


def landed_folder(root, destination):
    return root / destination["s3_bucket"] / destination["s3_prefix"]


def compare(buckets, destination, date=DATE):
    """Has other implementations than ours compare every row and value of a destination with what was staged."""
    compare_folders(buckets / "dayport-staging/events" / date, landed_folder(buckets, destination),
                    destination["format"], destination["layout"], date)


def compare_folders(staged, landed, form, layout, date=DATE):
    """The same, of a day's staged folder and a destination's."""
    subprocess.run([sys.executable, ROOT / "tests/readers/compare.py", "--staged", staged, "--landed", landed,
                    "--format", form, "--layout", layout, "--date", date], check=True)


def run_day(endpoint, config, *flags, date=DATE):
    """`dayport run` of a day; every destination must be committed. Gives the answer."""
    answer = answer_of(call([CLI, "run", "--config", config, "--date", date, "--output", "json", *flags],
                            environment(endpoint)))
    states = {run["destination"]: run["state"] for run in answer["runs"]}
    if set(states.values()) != {"committed"}:
        raise SystemExit(f"not every destination was committed: {states}")
    return answer


def stage_sample(endpoint, records, date=DATE, seed=1):
    call([CLI, "sample", "--date", date, "--records", records, "--seed", seed,
          "--out", f"s3://dayport-staging/events/{date}/"], environment(endpoint))


def stage_days(root, records, days):
    """Stages a sample day for each date of `days`, by its seed, in a local S3 of its own under `root`."""
    with local_s3(root) as endpoint:
        for date, seed in days.items():
            stage_sample(endpoint, records, date, seed)


def call(argv, env, check=True):
    """Runs a command to its end and gives its standard output; a failure shows what it said."""
    done = subprocess.run([str(part) for part in argv], env=env, cwd=ROOT, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def answer_of(text):
    """The JSON object in what a command or `cargo lambda invoke` printed."""
    return json.loads(text[text.index("{"): text.rindex("}") + 1])


def refuse_missing(*paths):
    missing = [str(path.relative_to(ROOT)) for path in paths if not path.exists()]
    if missing:
        raise SystemExit(f"not built yet: {', '.join(missing)}; run `make build`")
