"""Runs `dayport ddl --dialect duckdb` for real: every view of a landed day is made, read, and has the rows that the manifest says.

Needs the release command line; run it with python, it prints a line a test.
"""

import json
import pathlib
import sys
import tempfile
import unittest

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lab  # noqa: E402

KINDS = [(layout, form) for layout in ("permutive", "pontoon") for form in ("parquet", "json")]
LATER = "2026-01-16"


def configuration():
    text = '[staging]\ns3_bucket = "dayport-staging"\n[state]\ns3_bucket = "dayport-state"\n'
    text += '[event_tables]\ncolumns = { time = "timestamp" }\n'
    for layout, form in KINDS:
        name = f"{layout}-{form}"
        text += f'[[destination]]\nname = "{name}"\ns3_bucket = "{name}"\ns3_prefix = "ex"\nlayout = "{layout}"\nformat = "{form}"\n'
    return text


class Views(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lab.refuse_missing(lab.CLI)
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.buckets = folder / "s3"
        for name in ("dayport-staging", "dayport-state", *(f"{layout}-{form}" for layout, form in KINDS)):
            (cls.buckets / name).mkdir(parents=True)
        config = folder / "dayport.toml"
        config.write_text(configuration())
        port = lab.free_port()
        with lab.running([lab.CLI, "local", "--root", cls.buckets, "--port", port], folder / "local.log", lab.environment(), port):
            environment = lab.environment(f"http://127.0.0.1:{port}")
            lab.stage_sample(f"http://127.0.0.1:{port}", 600)
            # A second day, in which a struct and a list of structs have grown.
            later = cls.buckets / f"dayport-staging/events/{LATER}"
            later.mkdir(parents=True)
            lines = [{"event_name": "Pageview", "time": f"{LATER}T10:00:00Z", "properties": {"client": {"grown": 1}, "it's": [{"new": True}]}}]
            (later / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
            for day in (lab.DATE, LATER):
                lab.call([lab.CLI, "run", "--config", config, "--date", day], environment)
            cls.ddl = {
                kind: lab.call([lab.CLI, "ddl", f"{kind[0]}-{kind[1]}", "--config", config, "--dialect", "duckdb"], environment)
                for kind in KINDS
            }

    def rows(self, kind):
        """Rows by table, as the manifests say; what a later day replaced does not count."""
        rows = {}
        for day in (lab.DATE, LATER):
            manifest = json.loads((self.buckets / f"{kind[0]}-{kind[1]}/ex/_dayport/{day}.json").read_text())
            for table in manifest["tables"]:
                rows[table["name"]] = rows.get(table["name"], 0) + table["rows"]
        return rows

    def test_every_view_has_the_rows_of_the_manifests(self):
        for kind in KINDS:
            with self.subTest(kind=kind), duckdb.connect() as database:
                database.execute("SET TimeZone = 'UTC'")
                database.execute(self.ddl[kind].replace("s3://", f"{self.buckets}/"))
                found = {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in self.rows(kind)}
                self.assertEqual(found, self.rows(kind))

    def test_partitions_and_nested_values_are_read(self):
        for layout in ("permutive", "pontoon"):
            with self.subTest(layout=layout), duckdb.connect() as database:
                database.execute("SET TimeZone = 'UTC'")
                database.execute(self.ddl[layout, "parquet"].replace("s3://", f"{self.buckets}/"))
                grown = database.execute("SELECT properties.client.grown FROM pageview_events WHERE properties.client.grown IS NOT NULL")
                self.assertEqual(grown.fetchall(), [(1,)])
                if layout == "permutive":
                    days = database.execute("SELECT DISTINCT year, month, day FROM pageview_events ORDER BY ALL").fetchall()
                    self.assertEqual(days, [(2026, 1, 15), (2026, 1, 16)])
                else:
                    kinds = database.execute("SELECT DISTINCT typeof(dt) FROM pageview_events").fetchall()
                    self.assertEqual(kinds, [("DATE",)])
                kind = database.execute("SELECT DISTINCT typeof(time) FROM pageview_events").fetchall()
                self.assertEqual(kind, [("TIMESTAMP WITH TIME ZONE",)])

    def test_json_records_are_read(self):
        with duckdb.connect() as database:
            database.execute(self.ddl["permutive", "json"].replace("s3://", f"{self.buckets}/"))
            grown = database.execute("SELECT record->'properties'->'client'->>'grown' FROM pageview_events WHERE day = 16").fetchall()
            self.assertEqual(grown, [("1",)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
