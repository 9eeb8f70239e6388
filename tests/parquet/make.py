"""Makes the staged Parquet files of this folder, and for each kind the rows that must land, as NDJSON: `python tests/parquet/make.py`.

The files are committed, so that a clone's tests need no Python. `rows.arrow.ndjson` is what every `arrow_*.parquet` holds, whatever its codec,
encodings and pages; `rows.duck.ndjson` that of `duck_*.parquet`. The expected rows come from the values that were written, not from the files.
"""

import datetime
import decimal
import json
import math
import pathlib
import uuid

import base64

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).parent
UTC = datetime.timezone.utc


class Number(float):
    """A number with the text that it must land as."""

    def __new__(cls, text):
        number = super().__new__(cls, float(text))
        number.text = text
        return number

    def __repr__(self):
        return self.text


def canonical(value):
    if isinstance(value, float) and not isinstance(value, Number):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return Number(format(value, "f"))
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M:%S.%f")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): canonical(member) for key, member in value.items()}
    if isinstance(value, list):
        return [canonical(element) for element in value]
    return value


def write_rows(name, rows):
    # `float.__repr__` is what the encoder of plain floats calls; the subclass has its own text.
    json.encoder.c_make_encoder = None
    json.encoder.float = type("Float", (float,), {"__repr__": staticmethod(lambda number: repr(number))})
    text = "".join(json.dumps(canonical(row), ensure_ascii=False) + "\n" for row in rows)
    (FOLDER / name).write_text(text)


def arrow_rows():
    at = datetime.datetime(2026, 1, 15, 10, 0, 0, 123456, tzinfo=UTC)
    naive = datetime.datetime(2026, 1, 15, 23, 59, 59, 999999)
    full = {
        "event_name": "Pageview", "time": at, "event_id": "e-0", "flag": True,
        "i8": -128, "i16": -32768, "i32": -(2**31), "i64": 2**63 - 1, "u8": 255, "u16": 65535, "u32": 2**32 - 1, "u64": 2**64 - 1,
        "f32": 0.10000000149011612, "f64": 0.1, "dec": decimal.Decimal("1234567890123456.7890"),
        "dec256": decimal.Decimal("-1234567890123456789012345678901234567890.0000000001"),
        "day": datetime.date(2024, 2, 29), "clock_ms": datetime.time(1, 2, 3, 4000), "clock": datetime.time(23, 59, 59, 999999),
        "at_ms": datetime.datetime(2026, 1, 15, 10, 0, 0, 123000, tzinfo=UTC), "at_ns": naive,
        "bytes": b"\x00\xff\x10", "fixed": b"abc", "kind": "a", "nothing": None,
        "tags": ["x", None, "\"q\"\\\n\u0001é😀"], "numbers": [[1, None], [], None],
        "props": {"path": "/a", "price": decimal.Decimal("-0.05"), "deep": {"list": [{"b": 1, "c": None}, None, {"b": None, "c": "z"}]}},
        "counts": {"a": 1, "b": None, "": 3}, "by_number": {7: "seven", -1: None},
    }
    empty = {key: None for key in full} | {"event_name": "Pageview", "time": at}
    rows = [full, empty]
    odd = [
        {"f32": math.nan, "f64": math.inf, "tags": [], "props": {"path": None, "price": None, "deep": None}, "counts": {}},
        {"f32": -math.inf, "f64": -0.0, "numbers": [], "props": {"path": "", "price": decimal.Decimal("0.00"), "deep": {"list": []}}},
        {"f64": 1.7976931348623157e308, "i64": -(2**63), "dec": decimal.Decimal("0.0001"), "bytes": b"", "flag": False},
        {"f64": 5e-324, "dec256": decimal.Decimal("0E-10"), "day": datetime.date(1970, 1, 1), "clock": datetime.time(0, 0)},
    ]
    for nth in range(2, 12):
        rows.append(full | {"event_id": f"e-{nth}", "kind": "ab"[nth % 2], "i32": nth} | (odd[nth - 2] if nth - 2 < len(odd) else {}))
    return rows


ARROW_SCHEMA = pa.schema([
    ("event_name", pa.string()), ("time", pa.timestamp("us", tz="UTC")), ("event_id", pa.string()), ("flag", pa.bool_()),
    ("i8", pa.int8()), ("i16", pa.int16()), ("i32", pa.int32()), ("i64", pa.int64()),
    ("u8", pa.uint8()), ("u16", pa.uint16()), ("u32", pa.uint32()), ("u64", pa.uint64()),
    ("f32", pa.float32()), ("f64", pa.float64()), ("dec", pa.decimal128(20, 4)), ("dec256", pa.decimal256(50, 10)),
    ("day", pa.date32()), ("clock_ms", pa.time32("ms")), ("clock", pa.time64("us")),
    ("at_ms", pa.timestamp("ms", tz="Europe/Berlin")), ("at_ns", pa.timestamp("ns")),
    ("bytes", pa.binary()), ("fixed", pa.binary(3)), ("kind", pa.dictionary(pa.int8(), pa.string())), ("nothing", pa.null()),
    ("tags", pa.list_(pa.string())), ("numbers", pa.list_(pa.list_(pa.int32()))),
    ("props", pa.struct([
        ("path", pa.string()), ("price", pa.decimal128(9, 2)),
        ("deep", pa.struct([("list", pa.list_(pa.struct([("b", pa.int32()), ("c", pa.large_string())])))])),
    ])),
    ("counts", pa.map_(pa.string(), pa.int64())), ("by_number", pa.map_(pa.int32(), pa.string())),
])

ARROW_FILES = {
    "snappy": dict(compression="snappy", row_group_size=5),
    "gzip": dict(compression="gzip", data_page_version="2.0"),
    "zstd": dict(compression="zstd", row_group_size=4, data_page_size=1, write_batch_size=1),
    "lz4": dict(compression="lz4", use_dictionary=False),
    "brotli": dict(compression="brotli", data_page_version="2.0", row_group_size=7),
    "plain": dict(compression="none", store_schema=False, write_statistics=False, use_deprecated_int96_timestamps=True),
    "delta": dict(
        compression="zstd", use_dictionary=False, write_page_checksum=True,
        column_encoding={
            "event_name": "DELTA_BYTE_ARRAY", "event_id": "DELTA_LENGTH_BYTE_ARRAY", "i64": "DELTA_BINARY_PACKED",
            "f64": "BYTE_STREAM_SPLIT", "tags.list.element": "DELTA_LENGTH_BYTE_ARRAY", "props.path": "DELTA_BYTE_ARRAY",
        },
    ),
}

DUCK = """
select 'Pageview' as event_name,
       timestamptz '2026-01-15 10:00:00.5+00' + to_seconds(n) as time,
       ('00000000-0000-4000-8000-' || lpad(n::varchar, 12, '0'))::uuid as event_id,
       n % 2 = 0 as even, n::utinyint as tiny, (18446744073709551615 - n)::ubigint as big,
       (n / 8)::float as f, case when n = 3 then 'nan'::double else n / 3.0 end as d,
       (n * 1.005)::decimal(18, 3) as money, (n * 7)::decimal(38, 10) as wide,
       timestamp '2026-01-15 23:59:59.999999' as at, timestamp_ns '2026-01-15 23:59:59.123456000' as at_ns,
       date '2024-02-29' + n::integer as day, time '12:34:56.789' as clock,
       'x'::blob || '\\xFF'::blob as bytes, (case when n = 1 then null else 'large' end)::enum('small', 'large') as size,
       case when n = 2 then [] when n = 4 then null else [n, null, n * 2] end as list,
       {'path': '/p/' || n, 'inner': {'tags': ['a', null], 'n': n}} as props,
       [{'sku': 's' || i, 'price': (i / 4)::decimal(9, 2)} for i in range(n % 3)] as items,
       map {'k' || n: n, 'other': null} as counts,
       ('{"raw": [' || n || ', "é"]}')::json as document
from range(10) t(n)
"""


def main():
    rows = arrow_rows()
    table = pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)
    for name, options in ARROW_FILES.items():
        pq.write_table(table, FOLDER / f"arrow_{name}.parquet", **options)
    write_rows("rows.arrow.ndjson", rows)

    duck = duckdb.connect()
    duck.execute("set timezone = 'UTC'")
    relation = duck.execute(DUCK)
    names = [column[0] for column in relation.description]
    write_rows("rows.duck.ndjson", [dict(zip(names, row)) for row in relation.fetchall()])
    for name, options in {"v1": "", "v2": ", parquet_version v2, compression zstd, row_group_size 2048"}.items():
        duck.execute(f"copy ({DUCK}) to '{FOLDER}/duck_{name}.parquet' (format parquet{options})")


if __name__ == "__main__":
    main()
