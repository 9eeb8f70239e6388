"""`make real`: lands the JSON tables of the npm package vega-datasets, which nobody here wrote, and compares every value.

Each row of a table becomes an event that is named after the table, with the row as its `properties`, letter by letter.
A file that is no table (a topology, a grid) is one row; lists of objects inside it are tables of their own.
"""

import gzip
import shutil
import subprocess
import sys

import lab

sys.path.insert(0, str(lab.ROOT / "tests/readers"))
import staged

PACKAGE = "vega-datasets@3.2.1"


def main():
    lab.refuse_missing(lab.CLI)
    lab.stop_on_signals()
    folder = lab.ROOT / "target/real"
    shutil.rmtree(folder / "run", ignore_errors=True)
    buckets = folder / "run/s3"
    stage(package_data(folder), buckets / "dayport-staging/events" / lab.DATE)
    with lab.local_s3(buckets) as endpoint:
        answer = lab.run_day(endpoint, lab.CONFIG)
    for run in answer["runs"]:
        counts = run["counts"]
        print(f"{run['destination']}: {counts}", flush=True)
        if counts["read"] != counts["delivered"]:
            sys.exit(f"{run['destination']}: not every row was delivered")
    for destination in lab.destinations():
        lab.compare(buckets, destination)
    print(f"every value of {PACKAGE} is what it was")


def package_data(folder):
    data = folder / "node_modules/vega-datasets/data"
    if not data.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", folder, PACKAGE], check=True)
    return data


def stage(data, target):
    """One object for each file, every second one gzipped, under the folder of the staged day."""
    target.mkdir(parents=True)
    tables, rows = 0, 0
    for number, path in enumerate(sorted(data.glob("*.json"))):
        lines = []
        for table, texts in tables_of(path):
            tables, rows = tables + 1, rows + len(texts)
            # A raw line end can only be white space between tokens.
            lines += [
                f'{{"event_name":"{table}","time":"{lab.DATE}T12:00:00Z","event_id":"{table}-{row}","properties":{text}}}\n'
                for row, text in enumerate(text.replace("\r", " ").replace("\n", " ") for text in texts)
            ]
        body = "".join(lines).encode()
        if number % 2:
            (target / f"{path.stem}.ndjson.gz").write_bytes(gzip.compress(body, 6, mtime=0))
        else:
            (target / f"{path.stem}.ndjson").write_bytes(body)
    print(f"staged {rows:,} rows of {tables} tables", flush=True)


def tables_of(path):
    """The tables of a file as (name, texts of the rows)."""
    found = staged.records(path.read_bytes().removeprefix(b"\xef\xbb\xbf").strip())
    rows = [text for text, value in found if isinstance(value, dict)]
    yield path.stem, rows
    if len(rows) == 1:
        for key, value in found[0][1].items():
            if isinstance(value, list) and value and all(isinstance(element, dict) for element in value):
                text = rows[0]
                at = text.index("[", text.index(f'"{key}"'))
                yield f"{path.stem}-{key}", [row for row, _ in staged.records(array_at(text, at).encode())]


def array_at(text, start):
    _, stop = staged.parse_first(text, start)
    return text[start:stop]


if __name__ == "__main__":
    main()
