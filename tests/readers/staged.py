"""Reads a staged day from a folder: plain, gzip and zstd objects, told apart by their bytes, one record after the other."""

import gzip
import io
import os
import re

import zstandard

from equality import parse_first
from rules import REFERENCE_TABLES, table_name

_SPACE = re.compile(r"[ \t\n\r]*")


def objects(folder):
    """The keys below the folder in S3's order (UTF-8 bytes), less those with a part that begins with `_` or `.`."""
    keys = []
    for parent, _, names in os.walk(folder):
        for name in names:
            key = os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")
            if not any(part[0] in "_." for part in key.split("/")):
                keys.append(key)
    return sorted(keys, key=lambda key: key.encode())


def lines(path):
    """The lines of an object, unwrapped at most twice, without BOM and line ends, less blank ones; with their numbers."""
    with open(path, "rb") as file:
        stream = file
        for _ in range(2):
            stream = _unwrap(stream)
        for number, line in enumerate(stream, 1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            line = line.strip(b" \t\r\n")
            if line:
                yield number, line


def _unwrap(stream):
    start = stream.peek(4)[:4]
    if start[:2] == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=stream, mode="rb"), 1 << 18)
    if start == b"\x28\xb5\x2f\xfd" or (len(start) == 4 and 0x50 <= start[0] <= 0x5F and start[1:] == b"\x2a\x4d\x18"):
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True), 1 << 18)
    return stream


def records(line):
    """The records of one line as (text, parsed): several values in a row and arrays of records are several records.

    Raises ValueError where the line is not wholly JSON.
    """
    text = line.decode()
    position, end, found = 0, len(text), []
    while position < end:
        value, stop = parse_first(text, position)
        if isinstance(value, list):
            found.extend(elements(text[position:stop]))
        else:
            found.append((text[position:stop], value))
        position = _SPACE.match(text, stop).end()
    return found


def elements(array):
    position, found = _SPACE.match(array, 1).end(), []
    while array[position] != "]":
        value, stop = parse_first(array, position)
        found.append((array[position:stop], value))
        position = _SPACE.match(array, stop).end()
        if array[position] == ",":
            position = _SPACE.match(array, position + 1).end()
    return found


def split_by_table(folder, target, event_field, tables=REFERENCE_TABLES):
    """Writes each table's records in order, a line each, to `target/<table>.ndjson`.

    Gives the number of records by table, and the lines and records that belong to no table as (key, line number, reason).
    """
    counts, rejects, files = {}, [], {}
    try:
        for key in objects(folder):
            top = key.split("/")[0] if "/" in key else None
            folder_table = top if top in tables else None
            for number, line in lines(os.path.join(folder, key)):
                try:
                    found = records(line)
                except (ValueError, RecursionError) as error:
                    rejects.append((key, number, f"not JSON: {error}"))
                    continue
                for text, record in found:
                    name = record.get(event_field) if isinstance(record, dict) else None
                    if not isinstance(record, dict):
                        rejects.append((key, number, "not an object"))
                    elif folder_table is None and (type(name) is not str or not name.strip()):
                        rejects.append((key, number, "no event name"))
                    else:
                        table = folder_table or table_name(name)
                        if table not in files:
                            files[table] = open(os.path.join(target, f"{table}.ndjson"), "wb", buffering=1 << 16)
                        files[table].write(text.encode() + b"\n")
                        counts[table] = counts.get(table, 0) + 1
    finally:
        for file in files.values():
            file.close()
    return counts, rejects
