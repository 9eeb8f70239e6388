"""`make demo`: lands a sample day in four buckets on this machine, through the built Lambda function."""

import argparse
import collections
import shutil
import sys
import tempfile
import time

import duckdb

import lab

sys.path.insert(0, str(lab.ROOT / "tests/readers"))
import staged


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=20_000)
    options = options.parse_args()
    lab.refuse_missing(lab.CLI, lab.ARTEFACT)
    lab.stop_on_signals()
    started = time.monotonic()

    folder = lab.ROOT / "target/demo"
    shutil.rmtree(folder, ignore_errors=True)
    buckets = folder / "s3"
    with lab.local_s3(buckets) as endpoint:
        say(f"S3 on this machine: {endpoint} (each bucket is a folder under {buckets.relative_to(lab.ROOT)})")
        lab.stage_sample(endpoint, options.records)
        say(f"staged {options.records:,} records of {lab.DATE} in s3://dayport-staging/events/{lab.DATE}/")
        answer = invoke(endpoint, folder)
        for run in answer["runs"]:
            counts = run["counts"]
            say(f"{run['destination']}: {run['state']}, {counts['delivered']:,} of {counts['read']:,} records "
                f"delivered in {run['seconds']:.1f} s")

    for destination in lab.destinations():
        print(f"\ns3://{destination['s3_bucket']}/{destination['s3_prefix']}  "
              f"({destination['layout']}, {destination['format']})")
        print_tree(lab.landed_folder(buckets, destination))

    equal = print_counts(buckets)
    print(f"\n{time.monotonic() - started:.1f} s. Look around in {buckets.relative_to(lab.ROOT)}; nothing is running any more.")
    if not equal:
        sys.exit("rows are missing or too many: see the table above")


def say(text):
    print(text, flush=True)


def invoke(endpoint, folder):
    """The user's way: `cargo lambda watch` serves Lambda's APIs, the built artefact runs, `cargo lambda invoke` triggers."""
    port = lab.free_port()
    watch = ["cargo", "lambda", "watch", "--only-lambda-apis", "--invoke-address", "127.0.0.1", "--invoke-port", port]
    function_env = lab.environment(
        endpoint,
        DAYPORT_CONFIG=lab.CONFIG,
        AWS_LAMBDA_RUNTIME_API=f"http://127.0.0.1:{port}/.rt",
        AWS_LAMBDA_FUNCTION_NAME="_",
        AWS_LAMBDA_FUNCTION_VERSION="1",
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE="3008",
    )
    with (
        lab.running(watch, folder / "watch.log", lab.environment(), port),
        lab.running([lab.ARTEFACT], folder / "function.log", function_env),
    ):
        event = "events/scheduler.json"
        say(f"cargo lambda invoke --data-file {event}")
        try:
            return lab.answer_of(lab.call(
                ["cargo", "lambda", "invoke", "--invoke-address", "127.0.0.1", "--invoke-port", port,
                 "--data-file", event, "--output-format", "json"], lab.environment()))
        except SystemExit as refused:
            sys.exit(f"{refused}\nthe function said:\n{lab.tail(folder / 'function.log')}")


def print_tree(folder, indent=""):
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    for number, entry in enumerate(entries):
        last = number == len(entries) - 1
        name = entry.name
        # A chain of folders with one child each is one line.
        while entry.is_dir() and len(children := list(entry.iterdir())) == 1:
            entry = children[0]
            name += f"/{entry.name}"
        size = "" if entry.is_dir() else f"  {entry.stat().st_size:,} bytes"
        print(f"{indent}{'└── ' if last else '├── '}{name}{size}")
        if entry.is_dir():
            print_tree(entry, indent + ("    " if last else "│   "))


def print_counts(buckets):
    """Rows by table as staged and as another reader than ours finds them; true if all are equal."""
    # The staged day is counted by the same rules in Python that the read-back comparison uses, without Dayport's code.
    with tempfile.TemporaryDirectory() as scratch:
        counts, rejects = staged.split_by_table(buckets / "dayport-staging/events" / lab.DATE, scratch, "event_name")
    assert not rejects, rejects
    expected, landed = collections.Counter(counts), {}
    for destination in lab.destinations():
        landed[destination["name"]] = count_landed(lab.landed_folder(buckets, destination), destination)
    print(f"\n{'rows read back by duckdb':<32}{'staged':>10}" + "".join(f"{name:>16}" for name in landed))
    for table in sorted(set(expected).union(*landed.values())):
        print(f"{table:<32}{expected[table]:>10,}" + "".join(f"{counts[table]:>16,}" for counts in landed.values()))
    print(f"{'in all':<32}{expected.total():>10,}" + "".join(f"{counts.total():>16,}" for counts in landed.values()))
    return expected.total() > 0 and all(counts == expected for counts in landed.values())


def count_landed(folder, destination):
    tables = folder / "data" if destination["layout"] == "permutive" else folder
    ending = "parquet" if destination["format"] == "parquet" else "json.gz"
    reader = ("read_parquet(?, hive_partitioning = false)" if ending == "parquet"
              else "read_ndjson_objects(?, compression = 'gzip', maximum_object_size = 67108864)")
    counts = collections.Counter()
    for table in sorted(path for path in tables.iterdir() if path.is_dir() and path.name != "_dayport"):
        files = [str(path) for path in sorted(table.rglob(f"*.{ending}"))]
        counts[table.name] = duckdb.execute(f"select count(*) from {reader}", [files]).fetchone()[0]
    return counts


if __name__ == "__main__":
    main()
