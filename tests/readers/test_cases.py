"""Every staged case of `tests/cases/index.tsv`, and days whose structs grow, landed by the built command and read by readers that are not ours.

    test_cases.py [--readers pyarrow,duckdb,polars,spark]

Each landed value must be the staged one (`equality.py`), and each reader must read each file alike, alone and together with the files of
other days. Column types and rescued texts case by case are asserted in `tests/it/cases.rs`.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import landed
import pyarrow.parquet as pq
import staged
from equality import Comparison
from readers import READERS, Pyarrow, canonical
from rules import table_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lab  # noqa: E402

CASES = ROOT / "tests/cases"
BASE_DAY = "2024-03-14"
CHOSEN = ["pyarrow", "duckdb"]

# Days of one table in which everything grows that may: members first and last, structs in structs, in lists, and in lists in them.
GROWING = [
    ("2026-01-15", [
        {"page": "/a", "n": 1, "client": {"ip": "10.0.0.1"}, "slots": [{"id": "a"}, {"id": "b"}], "tags": ["x"]},
        {"page": "/b", "n": 2, "client": None, "slots": [], "tags": None},
    ]),
    ("2026-01-16", [
        {"first": True, "page": "/c", "n": 2.5, "client": {"geo": {"country": "DE"}, "ip": "10.0.0.2"},
         "slots": [{"sizes": [300, 250], "id": "c"}, None, {"id": "d", "sizes": []}]},
    ]),
    ("2026-01-17", [
        {"page": "/d", "n": 3, "client": {"ip": "::1", "geo": {"country": "FR", "city": {"name": "Paris"}}},
         "slots": [{"id": "e", "bids": [{"price": 1.5}, {"price": 2, "by": {"name": "x", "seats": [1]}}]}], "when": "2026-01-17T10:00:00.123456Z"},
        {"page": "/e", "matrix": [[1, 2], [], [3]], "tags": ["y", None, ""]},
    ]),
    ("2026-01-18", [
        {"page": "/f"},
        {"n": 4, "slots": [{"bids": [{"by": {"seats": []}}]}], "client": {}},
    ]),
]


class Case:
    """A row of the index."""

    def __init__(self, number, row):
        _, self.file, settings, delivered, quarantined, self.fate, _ = row.split("\t")
        self.name = f"case{number:02}"
        self.counts = None if delivered == "-" else (int(delivered), int(quarantined))
        self.settings = dict(setting.split("=", 1) for setting in settings.split())
        self.day = self.settings.pop("date", BASE_DAY)
        self.after = self.settings.pop("after", None)

    def days(self):
        return [(day, file) for day, file in ((BASE_DAY, self.after), (self.day, self.file)) if file]

    def staged(self):
        """The records of both days by table and id."""
        found = collections.defaultdict(list)
        for _, file in self.days():
            for _, line in staged.lines(CASES / file):
                try:
                    records = staged.records(line)
                except (ValueError, RecursionError):
                    continue
                for _, record in records:
                    name = record.get("event_type") if isinstance(record, dict) else None
                    if isinstance(name, str) and name.strip():
                        found[table_name(name), record.get("event_id")].append(repaired(record))
        return found


def repaired(value):
    """Half surrogates as the contract repairs them."""
    if isinstance(value, dict):
        return {repaired(key): repaired(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [repaired(element) for element in value]
    if type(value) is str:
        return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
    return value


def index():
    lines = (CASES / "index.tsv").read_text().splitlines()[1:]
    cases = [Case(number, line) for number, line in enumerate(lines, 1)]
    return [case for case in cases if case.fate == "ok" and not case.file.endswith(".json")]


def configuration(name, sections):
    text = ""
    for section, keys in sections.items():
        text += ("[[destination]]" if section.startswith("destination") else f"[{section}]") + "\n"
        text += "".join(f"{key} = {value}\n" for key, value in keys.items())
    return text


def sections_of(name, settings, event_field):
    sections = {
        "staging": {"s3_bucket": '"staging"', "s3_prefix": f'"{name}/{{date}}/"', "event_field": f'"{event_field}"'},
        "state": {"s3_bucket": '"state"', "s3_prefix": f'"{name}/"'},
        "run": {"max_quarantine_ratio": "1.0"},
        "destination": {"name": f'"{name}"', "s3_bucket": f'"{name}"'},
    }
    for key, value in settings.items():
        section, key = key.split(".")
        sections[section][key] = value
    return sections


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lab.refuse_missing(lab.CLI)
        cls.readers = [READERS[name]() for name in CHOSEN]
        cls.notes = set()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="readers-")))
        cls.buckets = cls.folder / "s3"
        for bucket in ("staging", "state"):
            (cls.buckets / bucket).mkdir(parents=True)
        port = lab.free_port()
        argv = [lab.CLI, "local", "--root", cls.buckets, "--port", port]
        cls.enterClassContext(lab.running(argv, cls.folder / "local.log", lab.environment(), port))
        cls.endpoint = f"http://127.0.0.1:{port}"

    @classmethod
    def tearDownClass(cls):
        for note in sorted(cls.notes):
            print(f"note: {note}", file=sys.stderr)

    def land(self, name, sections, days):
        """Stages and runs days, each a folder's name and a function that fills it; gives the last answer's runs."""
        for section, keys in sections.items():
            if section.startswith("destination"):
                (self.buckets / json.loads(keys["s3_bucket"])).mkdir(exist_ok=True)
        config = self.folder / f"{name}.toml"
        config.write_text(configuration(name, sections))
        for day, fill in days:
            folder = self.buckets / "staging" / name / day
            folder.mkdir(parents=True, exist_ok=True)
            fill(folder)
            answer = lab.run_day(self.endpoint, config, date=day)
        return answer["runs"]

    def files(self, bucket, extension="parquet"):
        """All landed files by table, in the order of their days."""
        found = collections.defaultdict(list)
        for path in (self.buckets / bucket).rglob(f"*.{extension}"):
            place = path.relative_to(self.buckets / bucket)
            table = place.parts[1] if place.parts[0] == "data" else place.parts[0]
            by_number = [int(part.split("=")[1]) if part.split("=")[0] in ("year", "month", "day") else part for part in place.parts]
            found[table].append((by_number, str(path)))
        return {table: [path for _, path in sorted(paths)] for table, paths in found.items()}

    def read_alike(self, paths):
        """Every reader reads each file alike; gives the rows by file."""
        wanted = Pyarrow().alone(paths)
        for reader in self.readers:
            found = reader.alone(paths)
            for path in paths:
                self.assertEqual(found[path], wanted[path], f"{reader.name} reads {path} differently")
        return wanted

    def read_together(self, paths, alone):
        wanted = sorted((json.dumps(row, sort_keys=True) for path in paths for row in alone[path]))
        for reader in self.readers:
            found = sorted(json.dumps(row, sort_keys=True) for row in reader.together(paths))
            self.assertEqual(found, wanted, f"{reader.name} reads the days together differently")
            if note := getattr(reader, "note", None):
                self.notes.add(note)

    def test_every_case_holds_what_was_staged_and_is_read_alike(self):
        cases, count = index(), 0
        self.assertGreater(len(cases), 45)
        for case in cases:
            with self.subTest(case=case.name, file=case.file):
                fills = [(day, lambda folder, file=file: shutil.copy(CASES / file, folder)) for day, file in case.days()]
                run, = self.land(case.name, sections_of(case.name, case.settings, "event_type"), fills)
                counts = run["counts"]
                self.assertEqual((counts["delivered"], counts["quarantined"]), case.counts)
                tables = self.files(case.name)
                alone = self.read_alike([path for paths in tables.values() for path in paths])
                count += self.compare(case, tables)
                for paths in tables.values():
                    if case.after:
                        self.assertEqual(len(paths), 2)
                        self.read_together(paths, alone)
        print(f"{len(cases)} cases, {count} rows: {', '.join(reader.name for reader in self.readers)} read each alike", file=sys.stderr)

    def compare(self, case, tables):
        """Each landed row is a staged record; of each table as many as the index says."""
        left, count = case.staged(), 0
        for table, paths in tables.items():
            for path in paths:
                day = next((day for day, _ in case.days() if "/month={}/day={}/".format(*map(int, day.split("-")[1:])) in path), case.day)
                manifest = json.loads((self.buckets / case.name / f"_dayport/{day}.json").read_text())
                found, schema = landed.faults(path)
                self.assertEqual(found, [], path)
                originals = originals_of(manifest, table, schema)
                comparison = Comparison(landed.column_tree(schema, {}, originals))
                for batch in pq.ParquetFile(path).iter_batches():
                    for row, rescued in landed.rows(batch):
                        staged_records = left[table, row.get("event_id")]
                        self.assertTrue(staged_records, f"{row} was never staged")
                        all_differences = [comparison.row(record, row, rescued) for record in staged_records]
                        self.assertIn([], all_differences, f"{table} {row}")
                        staged_records.pop(all_differences.index([]))
                        count += 1
        delivered = case.counts[0] + (2 if case.after == "b031_day1_integer.ndjson" else 1 if case.after else 0)
        self.assertEqual(count, delivered)
        return count

    def test_days_whose_structs_grow_are_read_together(self):
        sections = sections_of("growing", {}, "event_name")
        sections["event_tables"] = {"columns": '{ time = "timestamp", "properties.when" = "timestamp" }'}
        sections["destination.pontoon"] = {"name": '"growing-pontoon"', "s3_bucket": '"growing-pontoon"', "layout": '"pontoon"'}
        sections["destination.json"] = {"name": '"growing-json"', "s3_bucket": '"growing-json"', "format": '"json"'}

        def lines(day, records):
            return [json.dumps({"event_name": "View", "event_id": f"{day}-{number}", "time": f"{day}T12:00:00.5Z", "properties": properties})
                    for number, properties in enumerate(records)]

        fills = [(day, lambda folder, day=day, records=records: (folder / "a.ndjson").write_text("\n".join(lines(day, records))))
                 for day, records in GROWING]
        self.land("growing", sections, fills)
        staged_records = {json.loads(line)["event_id"]: json.loads(line) for day, records in GROWING for line in lines(day, records)}

        for bucket in ("growing", "growing-pontoon"):
            paths, = self.files(bucket).values()
            self.assertEqual(len(paths), len(GROWING))
            schemas = [pq.read_schema(path) for path in paths]
            self.assertNotEqual(schemas[0], schemas[2])
            alone = self.read_alike(paths)
            self.read_together(paths, alone)
            for path in paths:
                for row in alone[path]:
                    self.check_row(staged_records[row["event_id"]], row)
        paths, = self.files("growing-json", "json.gz").values()
        for (day, records), path in zip(GROWING, paths, strict=True):
            for reader in self.readers:
                self.assertEqual(reader.lines(path), lines(day, records), reader.name)
        print(f"{len(GROWING)} days whose structs grow, in both layouts: {', '.join(reader.name for reader in self.readers)} read them together", file=sys.stderr)

    def check_row(self, record, row):
        """Spelled out once more, apart from `equality.py`: the properties as they were staged, less nulls."""
        wanted = canonical(record["properties"]) or {}
        found = row.get("properties", {})
        number = wanted.pop("n", None)
        self.assertIn(number, (found.pop("n", number), found.pop("n_double", None)))
        found.pop("n_double", None)
        if "when" in wanted:
            self.assertEqual(found.pop("when"), 1768644000123456)
            del wanted["when"]
        self.assertEqual(tidy(found), tidy(wanted))


def tidy(value):
    """Less empty lists, which are evidence of nothing."""
    if isinstance(value, dict):
        found = {name: tidy(inner) for name, inner in value.items()}
        return {name: inner for name, inner in found.items() if inner not in (None, [], {})}
    if isinstance(value, list):
        return [tidy(element) for element in value]
    return value


def originals_of(manifest, table, schema):
    from compare import Settings

    return Settings("permutive", {}, manifest).originals(table, schema)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--readers", default=",".join(CHOSEN), help=f"by comma, of {', '.join(READERS)}")
    parsed, rest = options.parse_known_args()
    CHOSEN[:] = parsed.readers.split(",")
    os.environ["TZ"] = "UTC"
    lab.stop_on_signals()
    unittest.main(verbosity=2, argv=[sys.argv[0], *rest])
