"""One engine doing Dayport's day from files to files, in a process of its own, so that it can be billed alone.

    engines.py ENGINE FORM SOURCE TARGET SCHEMA

SOURCE is a folder of gzip NDJSON objects, TARGET an empty folder, SCHEMA an Arrow schema in IPC form: the one of all events, found
out beforehand at no cost to the engine. FORM `parquet`: Snappy Parquet, a folder per event name, nested types, `time` as a timestamp.
FORM `json`: gzip NDJSON per event name; `lines` the same without parsing the whole record. Two threads. Prints what its own start
(Python and the import) cost, which is taken off its bill.
"""

import json
import os
import sys
import time

THREADS = 2


def chdb_parquet(source, target, schema):
    import chdb

    structure = ", ".join(f"`{field.name}` {_clickhouse(field.type)}" for field in schema)
    return lambda: chdb.query(
        f"""
        INSERT INTO FUNCTION file('{target}/{{_partition_id}}.parquet', Parquet, $${structure}$$) PARTITION BY event_name
        SELECT * FROM file('{source}/*.gz', JSONEachRow, $${structure}$$)
        SETTINGS max_threads = {THREADS}, max_insert_threads = {THREADS}, max_parsing_threads = {THREADS},
            output_format_parquet_compression_method = 'snappy', output_format_parquet_string_as_string = 1,
            date_time_input_format = 'best_effort', input_format_skip_unknown_fields = 0, input_format_parallel_parsing = 1
        """
    )


def chdb_json(source, target, schema):
    import chdb

    structure = ", ".join(f"`{field.name}` {_clickhouse(field.type, instant='String')}" for field in schema)
    return lambda: chdb.query(
        f"""
        INSERT INTO FUNCTION file('{target}/{{_partition_id}}.json.gz', JSONEachRow, $${structure}$$, 'gzip') PARTITION BY event_name
        SELECT * FROM file('{source}/*.gz', JSONEachRow, $${structure}$$)
        SETTINGS max_threads = {THREADS}, max_insert_threads = {THREADS}, max_parsing_threads = {THREADS},
            output_format_json_quote_64bit_integers = 0, output_format_json_escape_forward_slashes = 0
        """
    )


def chdb_lines(source, target, schema):
    import chdb

    return lambda: chdb.query(
        f"""
        INSERT INTO FUNCTION file('{target}/{{_partition_id}}.json.gz', TSVRaw, 'line String', 'gzip')
        PARTITION BY simpleJSONExtractString(line, 'event_name')
        SELECT line FROM file('{source}/*.gz', LineAsString, 'line String')
        SETTINGS max_threads = {THREADS}, max_insert_threads = {THREADS}, max_parsing_threads = {THREADS}
        """
    )


def duckdb_parquet(source, target, schema):
    import duckdb

    database = _duckdb(duckdb)
    return lambda: database.execute(
        f"""
        COPY (SELECT * FROM read_ndjson('{source}/*.gz', columns = {_duckdb_columns(schema)}, compression = 'gzip'))
        TO '{target}' (FORMAT parquet, COMPRESSION snappy, PARTITION_BY (event_name), WRITE_PARTITION_COLUMNS true, OVERWRITE_OR_IGNORE true)
        """
    )


def duckdb_json(source, target, schema):
    import duckdb

    database = _duckdb(duckdb)
    return lambda: database.execute(
        f"""
        COPY (SELECT * FROM read_ndjson('{source}/*.gz', columns = {_duckdb_columns(schema, instant='VARCHAR')}, compression = 'gzip'))
        TO '{target}' (FORMAT json, COMPRESSION gzip, PARTITION_BY (event_name), WRITE_PARTITION_COLUMNS true, OVERWRITE_OR_IGNORE true,
            FILE_EXTENSION 'json.gz')
        """
    )


def polars_parquet(source, target, schema):
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars

    types = {field.name: _polars(polars, field.type) for field in schema}
    instants = [name for name, kind in types.items() if kind == polars.Datetime("us", "UTC")]
    staged = {**types, **dict.fromkeys(instants, polars.String())}
    parsed = [polars.col(name).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us", time_zone="UTC") for name in instants]
    frame = polars.scan_ndjson(f"{source}/*.gz", schema=staged).with_columns(*parsed)
    to = polars.PartitionBy(target, key="event_name", include_key=True, approximate_bytes_per_file=None)
    return lambda: frame.sink_parquet(to, compression="snappy", maintain_order=False, mkdir=True)


def _duckdb(duckdb):
    database = duckdb.connect(config={"threads": THREADS})
    database.execute("SET enable_progress_bar = false; SET preserve_insertion_order = false; SET TimeZone = 'UTC'")
    return database


def _duckdb_columns(schema, instant="TIMESTAMPTZ"):
    def one(kind):
        name = str(kind)
        if name.startswith("struct"):
            return f"STRUCT({', '.join(_quoted(child.name) + ' ' + one(child.type) for child in kind)})"
        if name.startswith("list"):
            return f"{one(kind.value_type)}[]"
        if name.startswith("timestamp"):
            return instant
        return {"bool": "BOOLEAN", "int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR"}[name]

    return "{" + ", ".join(f"'{field.name}': '{one(field.type)}'" for field in schema) + "}"


def _quoted(name):
    return f'"{name}"'


def _clickhouse(kind, instant="DateTime64(6, 'UTC')"):
    name = str(kind)
    if name.startswith("struct"):
        return f"Tuple({', '.join(f'`{child.name}` {_clickhouse(child.type, instant)}' for child in kind)})"
    if name.startswith("list"):
        return f"Array({_clickhouse(kind.value_type, instant)})"
    if name.startswith("timestamp"):
        return f"Nullable({instant})"
    return f"Nullable({ {'bool': 'Bool', 'int64': 'Int64', 'double': 'Float64', 'string': 'String'}[name] })"


def _polars(polars, kind):
    name = str(kind)
    if name.startswith("struct"):
        return polars.Struct({child.name: _polars(polars, child.type) for child in kind})
    if name.startswith("list"):
        return polars.List(_polars(polars, kind.value_type))
    if name.startswith("timestamp"):
        return polars.Datetime("us", "UTC")
    return {"bool": polars.Boolean(), "int64": polars.Int64(), "double": polars.Float64(), "string": polars.String()}[name]


def find_schema(source):
    """The Arrow schema of all events, from all records, as duckdb infers it; texts that look like UUIDs or times stay texts, but `time`."""
    import duckdb
    import pyarrow as pa

    with duckdb.connect(config={"threads": THREADS}) as database:
        database.execute("SET enable_progress_bar = false")
        query = f"SELECT * FROM read_ndjson('{source}/*.gz', sample_size = -1, maximum_depth = -1, map_inference_threshold = -1) LIMIT 0"
        found = database.sql(query).to_arrow_table().schema

    def plain(kind):
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(child.name, plain(child.type)) for child in kind])
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        return kind if kind in (pa.bool_(), pa.int64(), pa.float64()) else pa.string()

    instant = pa.timestamp("us", tz="UTC")
    return pa.schema([pa.field(field.name, instant if field.name == "time" else plain(field.type)) for field in found])


def main():
    engine, form, source, target, schema_path = sys.argv[1:]
    import pyarrow as pa

    with open(schema_path, "rb") as file:
        schema = pa.ipc.read_schema(pa.py_buffer(file.read()))
    work = globals()[f"{engine}_{form}"](source, target, schema)
    print(json.dumps({"cpu": time.process_time(), "at": time.clock_gettime(time.CLOCK_MONOTONIC)}), flush=True)
    work()


if __name__ == "__main__":
    main()
