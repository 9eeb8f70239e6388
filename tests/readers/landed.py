"""Reads what landed in a bucket's folder: which files are whose, what is wrong with a Parquet file's form, and its rows by two readers."""

import os
import re

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from equality import Column

EXTENSION = {"json": "json.gz", "parquet": "parquet"}
BATCH_ROWS = 8192
RESCUE = "_rescued_data"
PONTOON = {"pontoon__batch_id": pa.string(), "pontoon__last_synced_at": pa.timestamp("us", tz="UTC")}
_LEAF_KINDS = {
    pa.bool_(): "boolean",
    pa.int64(): "int64",
    pa.float64(): "double",
    pa.string(): "string",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def find(folder, layout, extension, date=None, transfer=None):
    """The landed files by table, in the order of their rows, and the keys that have no business there.

    With a date, only that day's partitions and the snapshots count in the permutive layout; in the pontoon layout it is the
    last transfer that counts, or the one whose time (YYYYMMDDHHMMSS) is given.
    """
    tables, strays, transfers = {}, [], set()
    for key in _keys(folder):
        if key.startswith("_dayport/"):
            continue
        place = _permutive(key, extension) if layout == "permutive" else _pontoon(key, extension)
        if place is None:
            strays.append(key)
            continue
        table, partition, order = place
        if layout == "pontoon":
            transfers.add(order[0])
        elif date and partition and partition != date:
            continue
        tables.setdefault(table, []).append((partition or (), order, os.path.join(folder, key)))
    if layout == "pontoon" and transfers:
        chosen = transfer or max(transfers)
        tables = {table: [file for file in files if file[1][0] == chosen] for table, files in tables.items()}
    return {table: [path for _, _, path in sorted(files)] for table, files in tables.items() if files}, strays


def _keys(folder):
    for parent, folders, names in os.walk(folder):
        # A local S3 may keep its own notes beside the objects, under names that begin with a dot.
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")


def _permutive(key, extension):
    match = re.fullmatch(
        r"data/([a-z0-9][a-z0-9_]*)(?:/year=(\d{4})/month=([1-9]\d?)/day=([1-9]\d?))?/data-(\d{12})\." + re.escape(extension), key
    )
    if not match:
        return None
    partition = tuple(map(int, match.group(2, 3, 4))) if match[2] else None
    return match[1], partition, (match[5],)


def _pontoon(key, extension):
    match = re.fullmatch(r"([a-z0-9][a-z0-9_]*)/dt=\d{4}-\d\d-\d\d/(\d{14})_(\d+)_(\d+)\." + re.escape(extension), key)
    return match and (match[1], None, (match[2], match[3], int(match[4])))


# The form of a Parquet file


def faults(path, schema=None):
    """What is wrong with a file's form, as (where, what), and its schema. The schema must be the given one, field ids included."""
    found = []
    if os.path.getsize(path) == 0:
        return [("file", "is empty")], None
    file = pq.ParquetFile(path)
    own = file.schema_arrow
    meta = file.metadata
    if schema is not None and not own.equals(schema, check_metadata=True):
        found.append(("schema", "is not that of the table's other files"))
    if b"ARROW:schema" in (meta.metadata or {}):
        found.append(("footer", "has the key ARROW:schema"))
    if meta.num_rows == 0:
        found.append(("file", "has no rows"))
    ids = []
    leaves = []
    for field in own:
        _check_field(field, field.name, ids, leaves, found)
    if len(set(ids)) != len(ids):
        found.append(("schema", "has a field id twice"))
    paths = [file.schema.column(index).path for index in range(len(file.schema))]
    if paths != leaves:
        found.append(("schema", f"has other leaf paths than three-level lists give: {[path for path in paths if path not in leaves]}"))
    for index in range(len(file.schema)):
        column = file.schema.column(index)
        if column.physical_type not in ("BOOLEAN", "INT64", "DOUBLE", "BYTE_ARRAY"):
            found.append((column.path, f"is of physical type {column.physical_type}"))
    with open(path, "rb") as raw:
        for number in range(meta.num_row_groups):
            group = meta.row_group(number)
            if group.num_rows == 0:
                found.append((f"row group {number}", "has no rows"))
            for index in range(group.num_columns):
                _check_chunk(group.column(index), raw, found)
    return found, own


def _check_field(field, path, ids, leaves, found):
    field_id = (field.metadata or {}).get(b"PARQUET:field_id")
    if field_id is None:
        found.append((path, "has no field id"))
    else:
        ids.append(field_id)
    if not field.nullable:
        found.append((path, "is not optional"))
    kind = field.type
    if pa.types.is_struct(kind):
        if kind.num_fields == 0:
            found.append((path, "is a struct without fields"))
        for child in kind:
            _check_field(child, f"{path}.{child.name}", ids, leaves, found)
    elif pa.types.is_list(kind):
        if kind.value_field.name != "element":
            found.append((path, f"has elements that are named {kind.value_field.name}"))
        _check_field(kind.value_field, f"{path}.list.element", ids, leaves, found)
    else:
        leaves.append(path)
        if kind not in _LEAF_KINDS:
            found.append((path, f"is of type {kind}"))


def _check_chunk(chunk, raw, found):
    where = chunk.path_in_schema
    if chunk.compression != "SNAPPY":
        found.append((where, f"is compressed as {chunk.compression}"))
    others = set(chunk.encodings) - {"PLAIN", "RLE", "RLE_DICTIONARY"}
    if others:
        found.append((where, f"is encoded as {', '.join(sorted(others))}"))
    # A page header is a Thrift struct in the compact protocol; its first field is the page's type: 0 is a V1 data page, 3 is V2.
    raw.seek(chunk.data_page_offset)
    header = raw.read(2)
    if header != b"\x15\x00":
        found.append((where, "begins with another page than a V1 data page"))


# Rows


def column_tree(schema, declared, originals):
    """The schema as `Column`s. `declared` and `originals` are by column path, a tuple of column names; lists add `element`."""

    def build(kind, path):
        if pa.types.is_struct(kind):
            column = Column("struct", children={child.name: build(child.type, (*path, child.name)) for child in kind})
        elif pa.types.is_list(kind):
            column = Column("list", element=build(kind.value_type, (*path, "element")))
        else:
            column = Column(_LEAF_KINDS.get(kind, str(kind)))
        column.declared = path in declared
        column.originals = {original: name for original, name in originals.get(path, {}).items() if name in column.children}
        return column.finish()

    data = [field for field in schema if field.name != RESCUE and field.name not in PONTOON]
    return build(pa.struct(data), ())


def rows(batch):
    """A batch's rows as (dict by column name, rescue text). Null fields are left out of dicts; timestamps are microseconds."""
    data = [index for index, name in enumerate(batch.schema.names) if name != RESCUE and name not in PONTOON]
    names = [batch.schema.names[index] for index in data]
    columns = [_values(batch.column(index)) for index in data]
    place = batch.schema.get_field_index(RESCUE)
    rescued = _values(batch.column(place)) if place >= 0 else [None] * batch.num_rows
    return zip(_dicts(names, columns, batch.num_rows), rescued)


def _dicts(names, columns, length):
    if not names:
        return [{} for _ in range(length)]
    return [{name: value for name, value in zip(names, values) if value is not None} for values in zip(*columns)]


def _values(array):
    """An array as Python values, column by column, which is several times faster than row by row."""
    kind = array.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        values = _dicts(names, [_values(child) for child in array.flatten()], len(array))
    elif pa.types.is_list(kind):
        items = _values(array.flatten())
        lengths = pc.list_value_length(array).fill_null(0).to_pylist()
        values, start = [], 0
        for length in lengths:
            values.append(items[start : start + length])
            start += length
    elif pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64()).to_pylist()
    else:
        return array.to_pylist()
    if array.null_count:
        values = [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist())]
    return values


def _database():
    database = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
    database.execute("SET enable_progress_bar = false")
    return database


def read_twice(path, schema):
    """The file's batches, once pyarrow and duckdb agree on each; raises Disagreement where they do not."""
    with _database() as database:
        database.execute("SET TimeZone = 'UTC'")
        relation = database.sql("SELECT * FROM read_parquet(?, hive_partitioning = false)", params=[path])
        others = _sliced(relation.to_arrow_reader(BATCH_ROWS))
        with pq.ParquetFile(path) as file:
            start = 0
            for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
                other = others.take(batch.num_rows)
                _agree(batch, other, schema, start)
                start += batch.num_rows
                yield batch
            if others.take(1).num_rows:
                raise Disagreement(start, "rows", "no more", "more rows")


class Disagreement(Exception):
    """pyarrow and duckdb read a file differently: row, column, what each says."""


def _agree(batch, other, schema, start):
    if other.num_rows != batch.num_rows:
        raise Disagreement(start + other.num_rows, "rows", "more rows", "no more")
    if other.schema.names != batch.schema.names:
        raise Disagreement(start, "columns", batch.schema.names, other.schema.names)
    for name in batch.schema.names:
        mine = batch.column(name)
        theirs = other.column(name).combine_chunks()
        kind = schema.field(name).type
        mine = mine.cast(kind)
        theirs = theirs.cast(kind)
        if not mine.equals(theirs):
            for row in range(batch.num_rows):
                if mine[row] != theirs[row]:
                    raise Disagreement(start + row, name, str(mine[row]), str(theirs[row]))
            raise Disagreement(start, name, "one encoding of nulls", "another")


class _sliced:
    """A stream of batches, taken in any number of rows."""

    def __init__(self, reader):
        self.reader = reader
        self.left = None

    def take(self, wanted):
        parts = []
        while wanted > 0:
            if self.left is None or self.left.num_rows == 0:
                try:
                    self.left = self.reader.read_next_batch()
                except StopIteration:
                    break
                continue
            part = self.left.slice(0, wanted)
            self.left = self.left.slice(part.num_rows)
            wanted -= part.num_rows
            parts.append(part)
        return pa.Table.from_batches(parts, self.reader.schema)


def json_lines(path):
    """The lines of a gzip object, as pyarrow unpacks it and duckdb parses it; raises Disagreement where they do not agree."""
    with _database() as database:
        query = (
            "SELECT json::VARCHAR FROM read_ndjson_objects(?, compression = 'gzip', maximum_object_size = 134217728,"
            " hive_partitioning = false)"
        )
        others = _fetched(database.execute(query, [path]))
        with pa.input_stream(path, compression="gzip", buffer_size=1 << 18) as stream:
            for row, line in enumerate(_lines(stream)):
                other = next(others, None)
                if other != line.rstrip(b"\n").decode("utf-8", "replace"):
                    raise Disagreement(row, "line", line[:200], other and other[:200])
                yield line
        if next(others, None) is not None:
            raise Disagreement(row + 1, "line", "no more", "more lines")


def _fetched(result):
    while batch := result.fetchmany(1024):
        yield from (row[0] for row in batch)


def _lines(stream):
    """Lines with their line feeds, of a pyarrow stream."""
    rest = b""
    while block := stream.read(1 << 20):
        parts = (rest + block).split(b"\n")
        rest = parts.pop()
        for part in parts:
            yield part + b"\n"
    if rest:
        yield rest
