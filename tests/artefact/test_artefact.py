"""The release artefact, run as Lambda runs it: its symbols, its init, every event file, and what a panic does to it."""

import contextlib
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import lab
from runtime_api import Function

EVENTS = lab.ROOT / "events"
WORK = lab.ROOT / "target/artefact-test"
DAY, DAY_BEFORE = "2026-01-15", "2026-01-14"
ALL = {"acme-parquet", "acme-json", "globex-parquet", "globex-json"}
PATIENCE = {"remaining": 900, "patience": 180}

# What each event file asks for: destinations and days. A scheduled trigger may take missed days along.
ASKED = {
    "date.json": (ALL, {DAY}),
    "destination.json": ({"acme-parquet"}, {DAY}),
    "destinations.json": ({"acme-parquet", "acme-json"}, {DAY}),
    "eventbridge-rule.json": (ALL, {DAY}),
    "force.json": (ALL, {DAY}),
    "range.json": (ALL, {DAY_BEFORE, DAY}),
    "range-force.json": ({"acme-parquet", "globex-json"}, {DAY_BEFORE, DAY}),
    "scheduler.json": (ALL, {DAY}),
    "scheduler-destination.json": ({"acme-parquet"}, {DAY}),
}


def runs(outcome):
    assert outcome.error is None, outcome.error
    return {(run["destination"], run["date"]): run for run in outcome.answer["runs"]}


def files_in(folder):
    """What a customer sees: the keys of a bucket, in order."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class Binary(unittest.TestCase):
    def test_needs_no_newer_glibc_than_provided_al2023_has(self):
        symbols = subprocess.run(["objdump", "-T", lab.ARTEFACT], capture_output=True, text=True, check=True).stdout
        versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", symbols)}
        self.assertTrue(versions, "objdump found no versioned symbol: is this a dynamic binary?")
        self.assertLessEqual(max(versions), (2, 30))

    def test_was_built_without_the_jitter_entropy_that_costs_every_cold_start_a_tenth_of_a_second(self):
        # `.cargo/config.toml` sets it; the build script of aws-lc-sys says what it found.
        builds = list((lab.ROOT / "target").glob("*-linux-gnu/release/build/aws-lc-sys-*/output"))
        self.assertTrue(builds)
        for output in builds:
            self.assertIn("AWS_LC_SYS_NO_JITTER_ENTROPY': '1'", output.read_text(), output)

    def test_holds_nothing_of_the_command_line_or_the_local_endpoint(self):
        # Panic messages name the source file of their crate, so that a crate that was linked can be found.
        weight = [b"/clap_builder-", b"/indicatif-", b"/s3s-"]
        command = lab.CLI.read_bytes()
        self.assertTrue(any(crate in command for crate in weight), "the sign that is looked for is gone: find another")
        artefact = lab.ARTEFACT.read_bytes()
        self.assertEqual([crate for crate in weight if crate in artefact], [])


class Invocations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Stages two days once; each test copies them into buckets of its own."""
        shutil.rmtree(WORK, ignore_errors=True)
        lab.stage_days(WORK / "staged/s3", 2000, {DAY_BEFORE: 1, DAY: 2})
        # A lease that a test can wait for.
        cls.config = WORK / "dayport.toml"
        cls.config.write_text(lab.CONFIG.read_text().replace("[state]\n", '[state]\nlease = "5s"\n', 1))

    def setUp(self):
        self.fresh_buckets()
        self.addCleanup(lambda: self._s3.close())

    def fresh_buckets(self):
        """Another S3 with the two staged days in it and nothing else."""
        if hasattr(self, "_s3"):
            self._s3.close()
        self._s3 = contextlib.ExitStack()
        self.buckets = WORK / "run/s3"
        shutil.rmtree(self.buckets, ignore_errors=True)
        shutil.copytree(WORK / "staged/s3/dayport-staging", self.buckets / "dayport-staging")
        self.endpoint = self._s3.enter_context(lab.local_s3(self.buckets))

    def function(self, log=WORK / "function.log", **more):
        env = lab.environment(self.endpoint, DAYPORT_CONFIG=self.config, **more)
        return Function(lab.ARTEFACT, env, log)

    def test_the_init_phase_is_short(self):
        times = []
        for _ in range(7):
            with self.function() as function:
                times.append(function.init_seconds * 1000)
        median = statistics.median(times)
        print(f"init: process start to the first /next in {median:.0f} ms (median of {len(times)}; "
              f"{min(times):.0f} to {max(times):.0f})", flush=True)
        # Lambda gives the init phase 10 seconds; this asserts that nothing heavy crept into it.
        self.assertLess(median, 500)

    def test_every_event_file_is_listed_here(self):
        self.assertEqual({path.name for path in EVENTS.glob("*.json")}, {*ASKED, "check.json", "sqs-staging.json", "work.json"})

    def test_a_connection_test_by_event_lands_nothing_and_passes(self):
        self.fresh_buckets()
        with self.function() as function:
            outcome = function.invoke(json.loads((EVENTS / "check.json").read_text()), **PATIENCE)
        self.assertIsNone(outcome.error, outcome.error)
        landed = files_in(self.buckets / "acme-parquet")
        self.assertFalse(landed, "the probe is removed")

    def test_every_event_file_lands_what_it_asks_for_and_a_second_trigger_changes_nothing(self):
        for name, (destinations, days) in sorted(ASKED.items()):
            with self.subTest(name):
                self.fresh_buckets()
                event = json.loads((EVENTS / name).read_text())
                asked = {(destination, day) for destination in destinations for day in days}
                with self.function() as function:
                    first = runs(function.invoke(event, **PATIENCE))
                    self.assertLessEqual(asked, set(first))
                    for key, run in first.items():
                        counts = run["counts"]
                        self.assertEqual(run["state"], "committed", f"{key}: {run}")
                        self.assertEqual((counts["read"], counts["delivered"]), (2000, 2000), key)
                    landed = {bucket: files_in(self.buckets / bucket) for bucket in ALL}
                    self.assertEqual({bucket for bucket, files in landed.items() if files}, destinations)
                    again = runs(function.invoke({**event, "force": False} if "force" in event else event, **PATIENCE))
                    for key in asked:
                        self.assertEqual(again[key]["state"], "already_committed", key)
                    self.assertEqual({bucket: files_in(self.buckets / bucket) for bucket in ALL}, landed)

    def test_each_commit_is_one_log_line_that_the_alarm_on_silence_counts(self):
        # `template.yaml`: a metric filter of `{ $.RunsCommitted = * }`, so a JSON object with that key at its top.
        log = WORK / "commits.log"
        with self.function(log=log) as function:
            runs(function.invoke({"date": DAY}, **PATIENCE))
            runs(function.invoke({"date": DAY}, **PATIENCE))
        lines = [json.loads(line) for line in log.read_text().splitlines() if "RunsCommitted" in line]
        self.assertEqual({line["destination"] for line in lines}, ALL)
        self.assertEqual([line["RunsCommitted"] for line in lines], [1] * len(ALL))

    def test_force_runs_a_committed_day_again(self):
        with self.function() as function:
            runs(function.invoke(json.loads((EVENTS / "date.json").read_text()), **PATIENCE))
            acme, globex = files_in(self.buckets / "acme-parquet"), files_in(self.buckets / "globex-parquet")
            forced = runs(function.invoke(json.loads((EVENTS / "force.json").read_text()), **PATIENCE))
            self.assertEqual({run["state"] for run in forced.values()}, {"committed"})
            self.assertEqual(files_in(self.buckets / "acme-parquet"), acme)
            self.assertLess(set(globex), set(files_in(self.buckets / "globex-parquet")))

    def test_another_event_is_an_error_that_says_what_was_expected(self):
        with self.function() as function:
            for event in ({}, {"hello": "world"}, [], "2026-01-15", {"date": "15.01.2026"}, {"from": DAY},
                          {"Records": [{"eventSource": "aws:s3"}]}, {"date": DAY, "destination": "nobody"}):
                with self.subTest(event=event):
                    outcome = function.invoke(event, **PATIENCE)
                    self.assertIsNone(outcome.answer)
                    self.assertRegex(outcome.error["errorType"], r"^Dayport\.(Retryable|Customer|Vendor|Bug)$")
                    self.assertNotIn("\n", outcome.error["errorMessage"])
                    self.assertGreater(len(outcome.error["errorMessage"]), 10)
            self.assertEqual([files_in(self.buckets / bucket) for bucket in sorted(ALL)], [[]] * len(ALL))

    def test_a_day_that_was_not_staged_fails_retryably_and_leaves_nothing(self):
        with self.function() as function:
            outcome = function.invoke({"date": "2026-01-02"}, **PATIENCE)
            self.assertEqual(outcome.error["errorType"], "Dayport.Retryable")
            self.assertIn("2026-01-02", outcome.error["errorMessage"])
        self.assertEqual([files_in(self.buckets / bucket) for bucket in sorted(ALL)], [[]] * len(ALL))

    def test_a_panic_is_an_error_that_names_the_object_and_the_next_invocation_works(self):
        one = {"destination": "acme-parquet"}
        staged = self.buckets / "dayport-staging/events" / DAY_BEFORE
        victim = next(name for name in files_in(staged) if name.startswith("events/"))
        with self.function(DAYPORT_CRASH_POINT=f"panic_on_object={DAY_BEFORE}/{victim}") as function:
            outcome = function.invoke({"date": DAY_BEFORE, **one}, **PATIENCE)
            self.assertIsNone(outcome.answer)
            self.assertEqual(outcome.error["errorType"], "Dayport.Bug")
            self.assertIn(f"{DAY_BEFORE}/{victim}", outcome.error["errorMessage"])
            self.assertEqual(files_in(self.buckets / "acme-parquet"), [])
            next_one = runs(function.invoke({"date": DAY, **one}, **PATIENCE))
            self.assertEqual(next_one["acme-parquet", DAY]["state"], "committed")
        with self.function() as function:
            mended = runs(function.invoke({"date": DAY_BEFORE, **one}, **PATIENCE))
            self.assertEqual(mended["acme-parquet", DAY_BEFORE]["state"], "committed")


if __name__ == "__main__":
    lab.stop_on_signals()
    lab.refuse_missing(lab.CLI, lab.ARTEFACT)
    unittest.main(verbosity=2)
