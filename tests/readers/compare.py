"""Compares every record and value of a staged day with what landed, read by pyarrow and duckdb.

    compare.py --staged DIR --landed DIR --format parquet|json --layout permutive|pontoon

DIR are folders: the day's staged prefix, and the bucket with its prefix. JSON must be the staged bytes, a record a line, in order;
Parquet must hold each record's values (`equality.py` says what that means) in well-formed files (`landed.py`). Prints one line and
exits with 0 when nothing differs; else names the first ten differences and exits with 1.
"""

import argparse
import collections
import datetime
import glob
import json
import multiprocessing
import os
import re
import sys
import tempfile

import pyarrow as pa

import landed
import staged
from equality import Comparison, count_values, parse
from rules import REFERENCE_TABLES

SHOWN = 10
# A table with more differences is not read to its end.
ENOUGH = 1000
# How many rows ahead a lost or doubled row is looked for.
WINDOW = 64
END = object()


class Result:
    """What the comparison of one table, or of all, found."""

    def __init__(self):
        self.records = 0
        self.values = 0
        self.differences = 0
        self.shown = []

    def differ(self, table, row, path, left, right):
        self.differences += 1
        if len(self.shown) < SHOWN:
            self.shown.append(f"table {table}, row {row}, path {path}: staged {left}, landed {right}")

    def add(self, other):
        self.records += other.records
        self.values += other.values
        self.differences += other.differences
        self.shown = (self.shown + other.shown)[:SHOWN]


class Settings:
    """What the comparison must know of the run's configuration."""

    def __init__(self, layout, declared, manifest):
        self.layout = layout
        self._declared = declared
        self._columns = {table.get("name"): table.get("columns") or [] for table in (manifest or {}).get("tables", [])}

    def declared(self, table):
        """The declared columns of a table: kind by path."""
        found = dict(self._declared.get(None, {})) if table.endswith("_events") else {}
        found.update(self._declared.get(table, {}))
        return found

    def originals(self, table, schema):
        """The original keys that the manifest gives: by the path of the struct, column name by key."""
        found = {}
        for column in self._columns.get(table, []):
            original = column.get("original_name", column.get("original"))
            if original is None:
                continue
            path = _column_path(column["path"], schema)
            key = original[-1] if isinstance(original, list) else original
            found.setdefault(path[:-1], {})[key] = path[-1]
        return found


def _column_path(path, schema):
    """A manifest's column path as a tuple of column names, with `element` for each list on the way."""
    parts = path if isinstance(path, list) else path.split(".")
    kind, found = pa.struct(list(schema)), []
    for part in parts:
        while pa.types.is_list(kind):
            kind = kind.value_type
            found.append("element")
        is_field = pa.types.is_struct(kind) and kind.get_field_index(part) >= 0
        if not is_field and part in ("list", "element", "[]"):
            continue
        if is_field:
            kind = kind.field(part).type
        found.append(part)
    return tuple(found)


def parse_declared(text):
    """`time=timestamp,aliases:expiry=timestamp`: kinds by table (None: all event tables) and path."""
    declared = {}
    for item in filter(None, (text or "").split(",")):
        path, kind = item.strip().rsplit("=", 1)
        table, _, path = path.rpartition(":")
        path = tuple(path.split("."))
        while kind.startswith("list<") and kind.endswith(">"):
            declared.setdefault(table or None, {})[path] = "list"
            path, kind = (*path, "element"), kind[5:-1]
        declared.setdefault(table or None, {})[path] = kind
    return declared


class Ahead:
    """An iterator that can be looked into."""

    def __init__(self, source):
        self.source = iter(source)
        self.waiting = collections.deque()

    def peek(self, distance=0):
        while len(self.waiting) <= distance:
            self.waiting.append(next(self.source, END))
        return self.waiting[distance]

    def skip(self, count):
        for _ in range(count):
            self.waiting.popleft()


def align(result, table, staged_rows, landed_rows, differences, show):
    """Walks both sides in order. Where they part, looks ahead whether rows were lost or added, else names what changed in the row."""
    left, right, row = Ahead(staged_rows), Ahead(landed_rows), 0
    while result.differences < ENOUGH:
        one, other = left.peek(), right.peek()
        if one is END and other is END:
            return
        if one is not END and other is not END:
            found = differences(one, other)
            if not found:
                result.records += 1
                left.skip(1)
                right.skip(1)
                row += 1
                continue
        else:
            found = None
        lost, added = _distance(left, other, lambda one: differences(one, other)), _distance(right, one, lambda other: differences(one, other))
        if other is END or (lost and (not added or lost <= added)):
            for _ in range(lost or 1):
                result.differ(table, row, "the whole row", show(left.peek()), "nothing")
                left.skip(1)
                row += 1
        elif one is END or added:
            for _ in range(added or 1):
                result.differ(table, f"after {row - 1}" if row else "before 0", "the whole row", "nothing", show(right.peek()))
                right.skip(1)
        else:
            for path, left_value, right_value in found:
                result.differ(table, row, path, left_value, right_value)
            left.skip(1)
            right.skip(1)
            row += 1


def _distance(side, wanted, differences):
    """How many rows ahead on this side the wanted row of the other side is; 0 where it is not near."""
    if wanted is END:
        return 0
    for distance in range(1, WINDOW):
        candidate = side.peek(distance)
        if candidate is END:
            return 0
        if not differences(candidate):
            return distance
    return 0


def compare_json(table, records, files):
    """Byte for byte, in order."""
    result = Result()

    def all_landed():
        for path in files:
            for line in landed.json_lines(path):
                if not line.endswith(b"\n"):
                    result.differ(table, "last", os.path.basename(path), "a line feed at the end", "none")
                    line += b"\n"
                yield line

    def differences(line, other):
        if line == other:
            result.values += count_values(parse(line.decode()))
            return []
        at = next((index for index, (one, two) in enumerate(zip(line, other)) if one != two), min(len(line), len(other)))
        start = max(0, at - 30)
        return [(f"byte {at}", line[start : at + 30], other[start : at + 30])]

    with open(records, "rb") as lines:
        align(result, table, lines, all_landed(), differences, lambda line: line[:150])
    return result


def compare_parquet(table, records, files, settings):
    """The files' form, then value by value, in order."""
    result = Result()
    schema = None
    for path in files:
        faults, own = landed.faults(path, schema)
        schema = schema or own
        for where, what in faults:
            result.differ(table, "-", f"{os.path.basename(path)} {where}", "asks for a well-formed file", what)
    if result.differences:
        return result
    declared = settings.declared(table)
    tree = landed.column_tree(schema, declared, settings.originals(table, schema))
    check_kinds(result, table, tree, declared, settings.layout, schema)
    comparison = Comparison(tree)

    def all_landed():
        for path in files:
            for batch in landed.read_twice(path, schema):
                for name in set(landed.PONTOON) & set(batch.schema.names):
                    if batch.column(name).null_count or len(batch.column(name).unique()) != 1:
                        result.differ(table, "-", name, "one value in all rows", "others")
                yield from landed.rows(batch)

    def show(row):
        if isinstance(row, dict):
            return json.dumps(row, ensure_ascii=False)[:150]
        return str(row[0])[:150]

    with open(records, "rb") as lines:
        parsed = (parse(line.decode()) for line in lines)
        align(result, table, parsed, all_landed(), lambda one, other: comparison.row(one, *other), show)
    result.values = comparison.values
    return result


def check_kinds(result, table, tree, declared, layout, schema):
    """Declared columns are there as declared; nothing else became a timestamp; pontoon's own columns stand after the rescue column."""
    kinds = {}

    def walk(column, path):
        kinds[path] = column.kind
        for name, child in column.children.items():
            walk(child, (*path, name))
        if column.element:
            walk(column.element, (*path, "element"))

    walk(tree, ())
    for path, kind in declared.items():
        if kinds.get(path) != kind:
            result.differ(table, "-", ".".join(path), f"declared {kind}", kinds.get(path))
    for path, kind in kinds.items():
        if kind == "timestamp" and path not in declared:
            result.differ(table, "-", ".".join(path), "not declared", kind)
    names = schema.names
    if landed.RESCUE not in names:
        result.differ(table, "-", landed.RESCUE, "the rescue column", "none")
    place = names.index(landed.RESCUE) + 1 if landed.RESCUE in names else 0
    expected = list(landed.PONTOON) if layout == "pontoon" else []
    found = [name for name in names if name.startswith("pontoon__")]
    if found != expected or names[place : place + len(expected)] != expected:
        result.differ(table, "-", "pontoon__ columns", expected, found)
    for name in found:
        if schema.field(name).type != landed.PONTOON.get(name):
            result.differ(table, "-", name, landed.PONTOON.get(name), schema.field(name).type)


def check_manifest(result, manifest, folder, tables):
    """The manifest lists exactly the files that are there."""
    for table in manifest.get("tables", []):
        listed = sorted(file["key"] for file in table.get("files", []) if "key" in file)
        if not listed:
            continue
        found = sorted(os.path.relpath(path, folder) for path in tables.get(table["name"], []))
        if len(listed) != len(found) or not all(key.endswith(path) for key, path in zip(listed, found)):
            result.differ(table["name"], "-", "the manifest's files", listed[:3], found[:3])


def compare_table(work):
    """One table; runs in a process of its own, so that what it held is given back."""
    table, records, files, form, settings = work
    try:
        if form == "json":
            return compare_json(table, records, files)
        return compare_parquet(table, records, files, settings)
    except landed.Disagreement as fault:
        row, path, pyarrow_says, duckdb_says = fault.args
        result = Result()
        result.differ(table, row, path, "asks for one reading", f"{pyarrow_says} by pyarrow and {duckdb_says} by duckdb")
        return result
    except Exception as error:  # A file that no reader can read is a difference too, and must not hide the other tables.
        result = Result()
        result.differ(table, "-", "files", "readable files", f"{type(error).__name__}: {error}")
        return result


def load_manifest(folder, date):
    """The day's manifest, or the only one that is there; None where there is none."""
    paths = glob.glob(os.path.join(glob.escape(folder), "_dayport", f"{date or '*'}.json"))
    if len(paths) != 1:
        return None
    with open(paths[0], encoding="utf-8") as file:
        return json.load(file)


def compare(options):
    """The whole day."""
    total = Result()
    date = tuple(map(int, options.date.split("-"))) if options.date else None
    tables, strays = landed.find(options.landed, options.layout, landed.EXTENSION[options.format], date, options.transfer)
    for key in strays:
        total.differ("-", "-", "files", "no such object", key)
    manifest = load_manifest(options.landed, options.date)
    if manifest and options.layout == "permutive":
        check_manifest(total, manifest, options.landed, tables)
    settings = Settings(options.layout, parse_declared(options.declared), manifest)
    names = (*REFERENCE_TABLES, *filter(None, options.tables.split(",")))
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch:
        counts, rejects = staged.split_by_table(options.staged, scratch, options.event_field, names)
        if len(rejects) != options.quarantined:
            for key, line, reason in rejects[:SHOWN]:
                total.differ("-", f"line {line}", key, reason, f"{options.quarantined} expected in quarantine")
        for table in sorted(set(tables) - set(counts)):
            total.differ(table, "-", "table", "no records", f"{len(tables[table])} files")
        for table in sorted(set(counts) - set(tables)):
            total.differ(table, "-", "table", f"{counts[table]} records", "no files")
        # The largest first, so that no process is left with it at the end.
        both = sorted(set(counts) & set(tables), key=lambda table: (-counts[table], table))
        work = [(table, os.path.join(scratch, f"{table}.ndjson"), tables[table], options.format, settings) for table in both]
        if options.processes <= 1:
            for one in work:
                total.add(compare_table(one))
            return total
        with multiprocessing.get_context("spawn").Pool(min(options.processes, len(work) or 1), maxtasksperchild=4) as pool:
            for result in pool.imap(compare_table, work):
                total.add(result)
    return total


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--staged", required=True, help="folder of the day's staged prefix")
    parser.add_argument("--landed", required=True, help="folder of the destination's bucket and prefix")
    parser.add_argument("--format", required=True, choices=("json", "parquet"))
    parser.add_argument("--layout", required=True, choices=("permutive", "pontoon"))
    parser.add_argument("--event-field", default="event_name")
    parser.add_argument("--declared", help="declared columns: `time=timestamp,aliases:expiry=timestamp`; without a table: of every event table")
    parser.add_argument("--date", help="compare this day's partitions only (permutive layout)")
    parser.add_argument("--transfer", help="compare this transfer (YYYYMMDDHHMMSS, pontoon layout); default: the last")
    parser.add_argument("--tables", default="", help="further configured tables, by comma")
    parser.add_argument("--quarantined", type=int, default=0, help="how many staged lines must not have landed")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    if options.date and not re.fullmatch(r"\d{4}-\d\d-\d\d", options.date):
        parser.error("--date is written as 2026-01-15")
    if options.date:
        datetime.date.fromisoformat(options.date)
    total = compare(options)
    if not total.records and not total.differences:
        total.differ("-", "-", "folders", "at least one record", "nothing to compare")
    for line in total.shown:
        print(line)
    print(f"compare: {total.records} records, {total.values} values, {total.differences} differences")
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main())
