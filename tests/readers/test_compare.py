"""Proves that compare.py lets a right day pass and catches what it is there to catch. Run it with python; it prints a line a test."""

import contextlib
import copy
import gzip
import io
import json
import os
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

import compare
import landed
import rules
from equality import Number, parse, same_json, same_number

STAGED = [
    '{"event_name":"Pageview","time":"2026-01-15T08:13:02.417Z","event_id":"a","segments":[1,2,3],"price":1,'
    '"properties":{"client":{"title":"M\\u00fcnchen \\ud83d\\ude80","referrer":""},"score":0.4821137,"odd key":7,"list":[{"label":"x","score":1}]}}',
    '{"event_name":"PAGEVIEW","time":"2026-01-15T09:13:02.4171239+01:00","event_id":"b","segments":[],"price":2.5,'
    '"properties":{"client":{"title":"München","referrer":null},"score":1,"big":123456789012345678901234567890,"list":[]}}',
    '{"event_name":"Pageview","time":1768464782,"event_id":"c","segments":null,"price":null,'
    '"properties":{"client":{},"Score":0.25,"list":[{"label":null,"score":2.5e-05},{"label":"y"}],"note":{"any":[1.50,true]},"flag":"true"}}',
    '{"event_name":"Pageview","time":"2026-01-15","event_id":"d","price":"n/a","properties":{"score":-0.0,"text":12,"flag":false}}',
    '{"event_name":"Pageview","time":"2026-01-15 23:59:60","event_id":"e","properties":{"list":[{"label":"z","score":6.7E8}],"score":1e400}}',
]

CLIENT = pa.struct([("title", pa.string()), ("referrer", pa.string())])
ELEMENT = pa.struct([("label", pa.string()), ("score", pa.float64())])
ODD = rules.column_name("odd key", False)
PROPERTIES = pa.struct(
    [
        ("client", CLIENT), ("score", pa.float64()), (ODD, pa.int64()), ("list", pa.list_(pa.field("element", ELEMENT))),
        ("note", pa.string()), ("text", pa.string()), ("flag", pa.bool_()), ("big", pa.int64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")), ("_rescued_data", pa.string()), ("event_name", pa.string()), ("event_id", pa.string()),
        ("segments", pa.list_(pa.field("element", pa.int64()))), ("price", pa.int64()), ("properties", PROPERTIES), ("price_double", pa.float64()),
    ]
)
# The same five records as Dayport would land them.
ROWS = [
    {
        "time": 1768464782417000, "event_name": "Pageview", "event_id": "a", "segments": [1, 2, 3], "price": 1, "price_double": 1.0,
        "properties": {
            "client": {"title": "München \U0001F680", "referrer": ""}, "score": 0.4821137, ODD: 7, "list": [{"label": "x", "score": 1.0}],
        },
    },
    {
        "time": 1768464782417123, "event_name": "PAGEVIEW", "event_id": "b", "segments": [], "price_double": 2.5,
        "properties": {"client": {"title": "München"}, "score": 1.0, "list": None},
        "_rescued_data": '{"/properties/big":123456789012345678901234567890}',
    },
    {
        "time": 1768464782000000, "event_name": "Pageview", "event_id": "c",
        "properties": {
            "client": None, "score": 0.25, "list": [{"score": 2.5e-05}, {"label": "y"}], "note": '{"any":[1.50,true]}', "flag": True,
        },
    },
    {
        "time": 1768435200000000, "event_name": "Pageview", "event_id": "d", "properties": {"score": 0.0, "text": "12", "flag": False},
        "_rescued_data": '{"/price":"n/a"}',
    },
    {
        "time": 1768521599999999, "event_name": "Pageview", "event_id": "e", "properties": {"list": [{"label": "z", "score": 6.7e8}]},
        "_rescued_data": '{"/properties/score":1e400}',
    },
]
DECLARED = "time=timestamp,properties.flag=boolean"


def with_ids(schema):
    """The schema with a field id at every depth."""
    ids = iter(range(1, 1000))

    def one(field):
        kind = field.type
        number = str(next(ids))
        if pa.types.is_struct(kind):
            kind = pa.struct([one(child) for child in kind])
        elif pa.types.is_list(kind):
            kind = pa.list_(one(kind.value_field))
        return pa.field(field.name, kind, field.nullable, metadata={"PARQUET:field_id": number})

    return pa.schema([one(field) for field in schema])


WITH_IDS = with_ids(SCHEMA)


class Day:
    """A staged day and where it landed, in a folder of its own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.staged = os.path.join(self.folder.name, "staged")
        self.landed = os.path.join(self.folder.name, "landed")
        os.makedirs(self.staged)

    def stage(self, lines=STAGED):
        text = ["".join(f"{line}\n" for line in part).encode() for part in (lines[:2], lines[2:3], lines[3:])]
        half = len(text[0]) // 2
        self.write(self.staged, "events/0.gz", gzip.compress(text[0][:half]) + gzip.compress(text[0][half:]))
        self.write(self.staged, "events/1", b"\xef\xbb\xbf" + text[1].replace(b"\n", b"\r\n\r\n"))
        frames = [zstandard.compress(text[2][:50]), zstandard.compress(text[2][50:])]
        self.write(self.staged, "events/2.zst", b"".join(frames))
        self.write(self.staged, "_ignored/x", b"not JSON")
        self.write(self.staged, "domains/0.json", b'[{"domain":"a.example"}, {"domain":"b.example"}]\n')
        return self

    @staticmethod
    def write(folder, key, content):
        path = os.path.join(folder, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    def land_json(self, lines=STAGED):
        key = "data/pageview_events/year=2026/month=1/day=15/data-00000000000{}.json.gz"
        for number, part in enumerate((lines[:3], lines[3:])):
            self.write(self.landed, key.format(number), gzip.compress("".join(f"{line}\n" for line in part).encode()))
        domains = b'{"domain":"a.example"}\n{"domain":"b.example"}\n'
        self.write(self.landed, "data/domains/data-000000000000.json.gz", gzip.compress(domains))
        return self

    def land_parquet(self, rows=ROWS, schema=WITH_IDS, pontoon=False, **options):
        settings = {
            "store_schema": False, "compression": "snappy", "use_dictionary": ["event_name"], "data_page_version": "1.0", "version": "2.6",
            "use_compliant_nested_type": True, **options,
        }
        domains = with_ids(pa.schema([("_rescued_data", pa.string()), ("domain", pa.string())]))
        if pontoon:
            schema, domains = pontoon_schema(schema), pontoon_schema(domains)
            stamp = {"pontoon__batch_id": "1768532400000", "pontoon__last_synced_at": 1768532400000000}
            rows = [{**row, **stamp} for row in rows]
            keys = ["pageview_events/dt=2026-01-16/20260116030000_1768532400000_{}.parquet", "domains/dt=2026-01-16/20260116030000_1768532400000_0.parquet"]
        else:
            stamp = {}
            keys = ["data/pageview_events/year=2026/month=1/day=15/data-00000000000{}.parquet", "data/domains/data-000000000000.parquet"]
        parts = [(keys[0].format(number), schema, part) for number, part in enumerate((rows[:3], rows[3:]))]
        parts.append((keys[1], domains, [{"domain": "a.example", **stamp}, {"domain": "b.example", **stamp}]))
        for key, own, part in parts:
            path = os.path.join(self.landed, key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            pq.write_table(pa.Table.from_pylist(part, schema=own), path, **settings)
        return self

    def compare(self, form, layout="permutive", *more):
        """The exit code and what was printed."""
        printed = io.StringIO()
        arguments = ["--staged", self.staged, "--landed", self.landed, "--format", form, "--layout", layout, "--processes", "1", *more]
        if form == "parquet" and "--declared" not in more:
            arguments += ["--declared", DECLARED]
        with contextlib.redirect_stdout(printed):
            code = compare.main(arguments)
        return code, printed.getvalue()


def pontoon_schema(schema):
    place = schema.get_field_index("_rescued_data") + 1
    fields = list(schema)
    fields[place:place] = [
        pa.field("pontoon__batch_id", pa.string(), metadata={"PARQUET:field_id": "901"}),
        pa.field("pontoon__last_synced_at", pa.timestamp("us", tz="UTC"), metadata={"PARQUET:field_id": "902"}),
    ]
    return pa.schema(fields)


def changed(change):
    rows = copy.deepcopy(ROWS)
    change(rows)
    return rows


def assert_caught(outcome, *words):
    code, printed = outcome
    assert code == 1, printed
    for word in words:
        assert word in printed, f"{word!r} not in: {printed}"


def test_a_right_day_has_no_differences_in_any_form():
    code, printed = Day().stage().land_json().compare("json")
    assert (code, printed) == (0, "compare: 7 records, 44 values, 0 differences\n"), printed
    code, printed = Day().stage().land_parquet().compare("parquet", "permutive", "--processes", "2")
    assert (code, printed) == (0, "compare: 7 records, 44 values, 0 differences\n"), printed
    code, printed = Day().stage().land_parquet(pontoon=True).compare("parquet", "pontoon")
    assert (code, printed) == (0, "compare: 7 records, 44 values, 0 differences\n"), printed


def test_a_lost_row_is_caught_and_is_the_only_difference():
    lost = changed(lambda rows: rows.pop(1))
    assert_caught(Day().stage().land_parquet(lost).compare("parquet"), "row 1, path the whole row", '"event_id": "b"', ", 1 differences")
    last = changed(lambda rows: rows.pop())
    assert_caught(Day().stage().land_parquet(last).compare("parquet"), "row 4, path the whole row", ", 1 differences")
    assert_caught(Day().stage().land_json(STAGED[:1] + STAGED[2:]).compare("json"), "row 1, path the whole row", ", 1 differences")


def test_a_doubled_row_is_caught_and_is_the_only_difference():
    doubled = changed(lambda rows: rows.insert(1, rows[0]))
    assert_caught(Day().stage().land_parquet(doubled).compare("parquet"), "staged nothing", ", 1 differences")
    at_the_end = changed(lambda rows: rows.append(rows[4]))
    assert_caught(Day().stage().land_parquet(at_the_end).compare("parquet"), "staged nothing", ", 1 differences")
    assert_caught(Day().stage().land_json(STAGED[:3] + STAGED[2:]).compare("json"), "staged nothing", ", 1 differences")


def test_rows_in_another_order_are_caught():
    assert_caught(Day().stage().land_json(STAGED[::-1]).compare("json"))
    assert_caught(Day().stage().land_parquet(ROWS[::-1]).compare("parquet"))


def test_a_number_that_differs_in_its_last_digit_is_caught():
    def last_digit(rows):
        rows[0]["properties"]["score"] = 0.48211370000000006
    assert_caught(Day().stage().land_parquet(changed(last_digit)).compare("parquet"), "/properties/score", "0.4821137", ", 1 differences")
    def last_segment(rows):
        rows[0]["segments"] = [1, 2, 4]
    assert_caught(Day().stage().land_parquet(changed(last_segment)).compare("parquet"), "/segments/2", ", 1 differences")
    def sibling(rows):
        rows[1]["price_double"] = 2.5000000000000004
    assert_caught(Day().stage().land_parquet(changed(sibling)).compare("parquet"), "/price", ", 1 differences")
    def rescued(rows):
        rows[1]["_rescued_data"] = '{"/properties/big":123456789012345678901234567891}'
    assert_caught(Day().stage().land_parquet(changed(rescued)).compare("parquet"), "/properties/big", ", 1 differences")
    other = [line.replace("0.4821137", "0.4821138") for line in STAGED]
    assert_caught(Day().stage().land_json(other).compare("json"), "0.4821138", ", 1 differences")
    assert_caught(Day().stage().land_json([line.replace("1.50", "1.5") for line in STAGED]).compare("json"), ", 1 differences")


def test_a_dropped_nested_value_is_caught():
    for path, drop in {
        "/properties/client/title": lambda rows: rows[0]["properties"]["client"].pop("title"),
        "/properties/client/referrer": lambda rows: rows[0]["properties"]["client"].pop("referrer"),
        "/properties/list/0/score": lambda rows: rows[2]["properties"]["list"][0].pop("score"),
        "/properties/list": lambda rows: rows[2]["properties"]["list"].pop(),
        "/properties/odd key": lambda rows: rows[0]["properties"].pop(ODD),
        "/properties/note": lambda rows: rows[2]["properties"].update(note='{"any":[1.50]}'),
        "/properties/big": lambda rows: rows[1].pop("_rescued_data"),
        "/price": lambda rows: rows[1].pop("price_double"),
        "/properties/flag": lambda rows: rows[3]["properties"].pop("flag"),
    }.items():
        assert_caught(Day().stage().land_parquet(changed(drop)).compare("parquet"), f"path {path}:", ", 1 differences")


def test_an_invented_value_is_caught():
    for path, add in {
        "/properties/text": lambda rows: rows[0]["properties"].update(text=""),
        "/price": lambda rows: rows[3].update(price=0),
        "/properties/nothing": lambda rows: rows[0].update(_rescued_data='{"/properties/nothing":1}'),
    }.items():
        assert_caught(Day().stage().land_parquet(changed(add)).compare("parquet"), f"path {path}:", ", 1 differences")


def test_a_wrong_time_is_caught():
    for row, wrong in ((0, 1768464782416999), (1, 1768464782417124), (1, 1768468382417123), (3, 1768435200000001), (4, 1768521600000000)):
        rows = changed(lambda rows: rows[row].update(time=wrong))
        assert_caught(Day().stage().land_parquet(rows).compare("parquet"), f"row {row}, path /time:", ", 1 differences")


def test_a_timestamp_that_was_not_declared_is_caught():
    outcome = Day().stage().land_parquet().compare("parquet", "permutive", "--declared", "properties.flag=boolean")
    assert_caught(outcome, "path time: staged not declared")


def test_a_literal_string_counts_only_in_a_declared_column():
    outcome = Day().stage().land_parquet().compare("parquet", "permutive", "--declared", "time=timestamp")
    assert_caught(outcome, "/properties/flag", ", 1 differences")


def test_a_missing_a_strange_and_an_empty_file_are_caught():
    day = Day().stage().land_parquet()
    os.remove(os.path.join(day.landed, "data/domains/data-000000000000.parquet"))
    assert_caught(day.compare("parquet"), "table domains", "2 records", "no files")
    day = Day().stage().land_json()
    day.write(day.landed, "data/domains/data-000000000000.tmp", b"")
    day.write(day.landed, "data/other_events/year=2026/month=01/day=15/data-000000000000.json.gz", b"")
    assert_caught(day.compare("json"), "data-000000000000.tmp", "month=01", ", 2 differences")
    day = Day().stage().land_parquet()
    day.write(day.landed, "data/domains/data-000000000001.parquet", b"")
    assert_caught(day.compare("parquet"), "is empty")


def test_nothing_at_all_is_not_a_success():
    assert_caught(Day().compare("json"), "nothing to compare")


def test_a_staged_line_that_is_no_record_must_be_expected():
    day = Day().stage().land_json()
    day.write(day.staged, "events/3", b'{"event_name":"Pageview"} x\n{"event_name":" "}\n[1]\n')
    assert_caught(day.compare("json"), "events/3", "not JSON", "no event name", "not an object")
    assert day.compare("json", "permutive", "--quarantined", "3")[0] == 0


def test_a_malformed_file_is_caught():
    only_domains = pa.schema([pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False), *list(SCHEMA)[1:]])
    unsigned = pa.schema([pa.field("n", pa.uint32()) if field.name == "price" else field for field in SCHEMA])
    for words, options in (
        ("has no field id", {"schema": SCHEMA}),
        ("has the key ARROW:schema", {"store_schema": True}),
        ("is compressed as GZIP", {"compression": "gzip"}),
        ("V1 data page", {"data_page_version": "2.0"}),
        ("is of physical type INT96", {"use_deprecated_int96_timestamps": True}),
        ("is not optional", {"schema": with_ids(only_domains)}),
        ("is of type uint32", {"schema": with_ids(unsigned)}),
        ("named item", {"use_compliant_nested_type": False, "schema": with_ids(list_of("item"))}),
        ("DELTA_BINARY_PACKED", {"use_dictionary": False, "column_encoding": {"price": "DELTA_BINARY_PACKED"}}),
    ):
        assert_caught(Day().stage().land_parquet(**options).compare("parquet"), words)
    day = Day().stage().land_parquet()
    other = with_ids(pa.schema([*list(SCHEMA)[:2], *list(SCHEMA)[:1:-1]]))
    path = os.path.join(day.landed, "data/pageview_events/year=2026/month=1/day=15/data-000000000001.parquet")
    pq.write_table(pa.Table.from_pylist(ROWS[3:], schema=other), path, store_schema=False, use_dictionary=False)
    assert_caught(day.compare("parquet"), "is not that of the table's other files")
    day = Day().stage().land_parquet()
    pq.write_table(WITH_IDS.empty_table(), path.replace(path.split("data/")[0], day.landed + "/").replace("0001.p", "0002.p"), store_schema=False)
    assert_caught(day.compare("parquet"), "has no rows")


def list_of(name):
    return pa.schema([pa.field("segments", pa.list_(pa.field(name, pa.int64()))) if field.name == "segments" else field for field in SCHEMA])


def test_the_manifest_must_list_what_is_there():
    day = Day().stage().land_json()
    files = [f"exports/data/pageview_events/year=2026/month=1/day=15/data-00000000000{number}.json.gz" for number in (0, 1)]
    manifest = {"tables": [{"name": "pageview_events", "files": [{"key": key} for key in files]}]}
    day.write(day.landed, "_dayport/2026-01-15.json", json.dumps(manifest).encode())
    assert day.compare("json", "permutive", "--date", "2026-01-15")[0] == 0
    manifest["tables"][0]["files"].pop()
    day.write(day.landed, "_dayport/2026-01-15.json", json.dumps(manifest).encode())
    assert_caught(day.compare("json", "permutive", "--date", "2026-01-15"), "the manifest's files")


def test_original_names_come_from_the_manifest():
    day = Day().stage()
    names = {"odd key": "odd_thing"}
    fields = [pa.field(names.get("odd key"), pa.int64()) if field.name == ODD else field for field in PROPERTIES]
    schema = with_ids(pa.schema([pa.field("properties", pa.struct(fields)) if field.name == "properties" else field for field in SCHEMA]))
    rows = changed(lambda rows: rows[0]["properties"].update(odd_thing=rows[0]["properties"].pop(ODD)))
    day.land_parquet(rows, schema)
    assert_caught(day.compare("parquet"), "/properties/odd key", "no column")
    columns = [{"path": "properties.odd_thing", "type": "int64", "original_name": "odd key"}]
    day.write(day.landed, "_dayport/2026-01-15.json", json.dumps({"tables": [{"name": "pageview_events", "columns": columns}]}).encode())
    assert day.compare("parquet")[0] == 0


def test_only_the_asked_day_and_the_last_transfer_count():
    day = Day().stage().land_json()
    day.write(day.landed, "data/pageview_events/year=2026/month=1/day=14/data-000000000000.json.gz", gzip.compress(b"{}\n"))
    assert day.compare("json", "permutive", "--date", "2026-01-15")[0] == 0
    assert_caught(day.compare("json"))
    day = Day().stage().land_parquet(pontoon=True)
    day.write(day.landed, "pageview_events/dt=2026-01-16/20260116020000_1768528800000_0.parquet", b"an earlier transfer")
    assert day.compare("parquet", "pontoon")[0] == 0


def test_names_are_those_of_the_contract():
    assert rules.table_name("Pageview") == "pageview_events"
    assert rules.table_name("a b") == "a_b_c8687a08_events"
    assert rules.table_name("_x").startswith("t_x_") and rules.table_name("_x").endswith("_events")
    assert rules.table_name("") != rules.table_name(" ")
    assert rules.column_name("price", True) == "price"
    assert rules.column_name("a.b", False).startswith("a_b_") and rules.column_name("1", False).startswith("c1_")
    assert rules.column_name("Year", True) != "Year" and rules.column_name("Year", False) == "Year"


def test_times_are_those_of_the_contract():
    first = 1768464782417000
    for text in ("2026-01-15T08:13:02.417Z", "2026-01-15 08:13:02.4170009", "2026-01-15T16:13:02.417+08:00", "2026-01-15T13:43:02.417+0530",
                 "2026-01-15T08:13:02.417 UTC", "1768464782417", Number("1768464782.417"), Number("1768464782417000"), Number("1768464782417000999")):
        assert rules.instant(text) == first, text
    for text in ("", "yesterday", "2026-01-15T24:00:00Z", "2026-02-30", "0000-01-01", "9999-01-01", "1969-12-31", Number("0"), Number("-5"),
                 Number("1e400"), "12"):
        assert rules.instant(text) is None, text


def test_numbers_are_compared_by_value():
    assert same_number(Number("6.7E8"), 670_000_000) and same_number(Number("1.0"), 1) and same_number(Number("0.1"), 0.1)
    assert not same_number(Number("9007199254740993"), 9007199254740992.0) and not same_number(Number("1.5"), 1)
    assert same_number(Number("9007199254740993"), 9007199254740993) and same_number(Number("0.30000000000000004"), 0.1 + 0.2)
    assert not same_number(Number("0.3"), 0.1 + 0.2) and not same_number(Number("1e400"), 1.7976931348623157e308)
    assert same_json(parse('{"a":[1.50,null]}'), parse('{"a":[15e-1,null]}'))
    assert not same_json(parse("[1]"), parse('["1"]')) and not same_json(parse("1"), parse("true"))
    assert not same_json(parse("0.1"), parse("0.1000000000000000055511151231257827"))


def test_two_readers_that_disagree_are_caught():
    schema = pa.schema([("n", pa.int64())])
    mine = pa.record_batch([pa.array([1, 2, 3])], schema=schema)
    try:
        landed._agree(mine, pa.table({"n": [1, 2, 4]}), schema, 100)
    except landed.Disagreement as fault:
        assert fault.args == (102, "n", "3", "4"), fault.args
    else:
        raise AssertionError("no disagreement")


def main():
    wanted = sys.argv[1:]
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_") and (not wanted or name in wanted)]
    failed = 0
    for name, test in tests:
        try:
            test()
            print(f"ok   {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
            if wanted:
                raise
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
