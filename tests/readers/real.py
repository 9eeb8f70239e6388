"""Lands data that nobody here wrote and compares every value: the JSON tables of the npm package vega-datasets, famously untidy.

    real.py --dayport target/release/dayport --data node_modules/vega-datasets/data

Each row becomes an event named after its table, with the row under `properties` as it was written. The day is run into four
destinations (both formats, both layouts) of a local S3, and compare.py reads back what landed. `make real` installs the package.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

import zstandard

import compare
import local
import staged
from equality import parse_first

DATE = "2026-01-15"
ROWS_PER_OBJECT = 20_000
DESTINATIONS = [(form, layout) for form in ("parquet", "json") for layout in ("permutive", "pontoon")]


def tables(folder):
    """The tables in the folder's JSON files, as (name, texts of the rows): lists of objects, at the top or one key below."""
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8-sig") as file:
            text = file.read().strip()
        stem = name.removesuffix(".json")
        if text.startswith("["):
            lists = {stem: text}
        else:
            lists = {f"{stem}-{key}": array for key, array in _lists_below(text)}
        for table, array in lists.items():
            rows = [row for row, value in staged.elements(array) if isinstance(value, dict)]
            if rows:
                # A line feed inside a JSON string is escaped, so those that are left only lay the text out.
                yield table, [re.sub(r"[\r\n]+", " ", row) for row in rows]


def _lists_below(text):
    """The members of an object that are lists of objects, with their texts."""
    space = re.compile(r"[ \t\n\r]*")
    position = space.match(text, 1).end()
    while text[position] != "}":
        key, position = parse_first(text, position)
        position = space.match(text, space.match(text, position).end() + 1).end()
        value, end = parse_first(text, position)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield key, text[position:end]
        position = space.match(text, end).end()
        if text[position] == ",":
            position = space.match(text, position + 1).end()


def stage(folder, target):
    """Writes the day's objects, packed in turn as gzip, zstd and plain text; gives the rows by table."""
    counts, number, second = {}, 0, 0
    for table, rows in tables(folder):
        counts[table] = len(rows)
        for start in range(0, len(rows), ROWS_PER_OBJECT):
            lines = []
            for row in rows[start : start + ROWS_PER_OBJECT]:
                time = f"{DATE}T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}Z"
                lines.append(f'{{"event_name":{json.dumps(table)},"time":"{time}","properties":{row}}}\n')
                second += 1
            content = "".join(lines).encode()
            extension, content = [
                ("ndjson.gz", gzip.compress(content, 6, mtime=0)),
                ("ndjson.zst", zstandard.compress(content)),
                ("ndjson", content),
            ][number % 3]
            os.makedirs(target, exist_ok=True)
            with open(os.path.join(target, f"part-{number:04}.{extension}"), "wb") as file:
                file.write(content)
            number += 1
    return counts


def write_config(path):
    """A configuration with a destination of each kind, each with a bucket of its own."""
    lines = [
        "[staging]", 's3_bucket = "staging"', "", "[state]", 's3_bucket = "state"', "",
        "[event_tables]", 'columns = { time = "timestamp" }', "",
    ]
    for form, layout in DESTINATIONS:
        name = f"{layout}-{form}"
        lines += ["[[destination]]", f'name = "{name}"', f's3_bucket = "{name}"', 's3_prefix = "exports"', f'format = "{form}"', f'layout = "{layout}"', ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dayport", required=True, help="the built command")
    parser.add_argument("--data", required=True, help="the package's folder `data`")
    parser.add_argument("--keep", help="work in this folder and leave it there; default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="real-") as temporary:
        work = os.path.abspath(options.keep or temporary)
        root = os.path.join(work, "s3")
        for bucket in ("staging", "state", *(f"{layout}-{form}" for form, layout in DESTINATIONS)):
            os.makedirs(os.path.join(root, bucket), exist_ok=True)
        folder = os.path.join(root, "staging", "events", DATE)
        counts = stage(options.data, folder)
        rows = sum(counts.values())
        print(f"staged {rows} rows of {len(counts)} tables")
        config = os.path.join(work, "dayport.toml")
        write_config(config)
        port = local.free_port()
        dayport = os.path.abspath(options.dayport)
        with local.serving(dayport, root, port):
            command = local.run_command(dayport, config, DATE)
            done = subprocess.run(command, env=local.environment(port), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if done.returncode:
            print(done.stdout.decode("utf-8", "replace"))
            print(f"real: `dayport run` ended with {done.returncode}")
            return 1
        failed = 0
        for run in local.answer_of(done.stdout):
            counted = run["counts"]
            print(f"{run['destination']}: {counted}")
            if (counted["read"], counted["delivered"]) != (rows, rows):
                print(f"real: {run['destination']} should have read and delivered {rows}")
                failed += 1
        for form, layout in DESTINATIONS:
            print(f"{layout}-{form}: ", end="", flush=True)
            failed += compare.main(
                ["--staged", folder, "--landed", os.path.join(root, f"{layout}-{form}", "exports"), "--format", form, "--layout", layout]
                + (["--declared", "time=timestamp"] if form == "parquet" else [])
            )
        print(f"real: {rows} rows of {len(counts)} tables, {len(DESTINATIONS)} destinations, {failed} failed")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
