"""`make bench`: times `dayport run` for one day, from the local S3 to the local S3, whose own process is not counted.

Each format in turn, at least three times, each time a first day (nothing is known of the tables); medians.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import time

import lab


FRESH = """
[staging]
s3_bucket = "dayport-staging"
s3_prefix = "events/{{date}}/"
[state]
s3_bucket = "dayport-state"
s3_prefix = "run-{turn}/"
[[destination]]
name = "{name}"
s3_bucket = "{s3_bucket}"
s3_prefix = "run-{turn}"
format = "{format}"
"""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=600_000)
    options.add_argument("--times", type=int, default=3)
    options = options.parse_args()
    lab.refuse_missing(lab.CLI)
    lab.stop_on_signals()
    folder = lab.ROOT / "target/bench"
    shutil.rmtree(folder, ignore_errors=True)
    buckets = folder / "s3"
    with lab.local_s3(buckets) as endpoint:
        lab.stage_sample(endpoint, options.records)
        staged = size_of(buckets / "dayport-staging")
        wanted = [destination for destination in lab.destinations() if destination["layout"] == "permutive"]
        figures = {destination["name"]: [] for destination in wanted}
        for turn in range(options.times):
            for destination in wanted:
                # Another state and another place for each run, so that each is a first day.
                config = folder / "dayport.toml"
                config.write_text(FRESH.format(turn=turn, **destination))
                measured = timed_run(endpoint, config, folder)
                landed = size_of(buckets / destination["s3_bucket"] / f"run-{turn}" / "data")
                figures[destination["name"]].append((*measured, landed))
    print(f"{options.records:,} records in {staged / 1e6:.1f} MB as staged; {os.cpu_count()} cores, {processor()}; "
          f"medians of {options.times}")
    print(f"{'':<16}{'CPU s':>8}{'wall s':>8}{'peak MB':>9}{'out MB':>8}")
    for name, rows in figures.items():
        cpu, wall, peak, size = (statistics.median(column) for column in zip(*rows))
        print(f"{name:<16}{cpu:>8.2f}{wall:>8.2f}{peak / 1e6:>9.0f}{size / 1e6:>8.1f}")


def timed_run(endpoint, config, folder):
    """CPU seconds, wall seconds and peak bytes of one `dayport run`."""
    argv = [lab.CLI, "run", "--config", config, "--date", lab.DATE, "--output", "json"]
    with open(folder / "run.log", "wb") as log:
        started = time.monotonic()
        process = subprocess.Popen(argv, env=lab.environment(endpoint), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"dayport run ended with {process.returncode}:\n{lab.tail(folder / 'run.log')}")
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def processor():
    for line in open("/proc/cpuinfo") if os.path.exists("/proc/cpuinfo") else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
