"""The work queue: the built artefact between moto's SQS and the local S3, its messages handed over as Lambda does."""

import contextlib
import json
import pathlib
import shutil
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import lab
from queues import Queue, moto
from runtime_api import Function

WORK = lab.ROOT / "target/work-queue-test"
DAY, DAY_BEFORE = "2026-01-15", "2026-01-14"
ALL = ["acme-parquet", "acme-json", "globex-parquet", "globex-json"]
PATIENCE = {"remaining": 900, "patience": 180}
SCHEDULED = {"time": "2026-01-16T03:00:00Z"}


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class WorkQueue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Stages two days once; each test copies them into buckets of its own."""
        shutil.rmtree(WORK, ignore_errors=True)
        lab.stage_days(WORK / "staged/s3", 10_000, {DAY_BEFORE: 1, DAY: 2})
        cls._moto = contextlib.ExitStack()
        cls.addClassCleanup(cls._moto.close)
        cls.sqs, cls.sqs_endpoint = cls._moto.enter_context(moto(WORK / "moto.log"))

    def setUp(self):
        self.queue = Queue(self.sqs, f"work-{self._testMethodName[:60]}")
        self.buckets = WORK / "run/s3"
        shutil.rmtree(self.buckets, ignore_errors=True)
        shutil.copytree(WORK / "staged/s3/dayport-staging", self.buckets / "dayport-staging")
        self.endpoint = self.enterContext(lab.local_s3(self.buckets))
        self.log = WORK / f"{self._testMethodName}.log"
        self.config = WORK / "dayport.toml"
        # A lease that a test can wait for.
        text = lab.CONFIG.read_text().replace("[state]\n", '[state]\nlease = "1s"\n', 1)
        self.config.write_text(f'{text}\n[run]\nwork_queue_url = "{self.queue.url}"\n')

    def function(self, **more):
        env = lab.environment(self.endpoint, DAYPORT_CONFIG=self.config, AWS_ENDPOINT_URL_SQS=self.sqs_endpoint, **more)
        return Function(lab.ARTEFACT, env, self.log)

    def states(self, function, event):
        outcome = function.invoke(event, **PATIENCE)
        self.assertIsNone(outcome.error, outcome.error)
        return {(run["destination"], run["date"]): run["state"] for run in outcome.answer["runs"]}

    def deliver_all(self, function):
        """Delivers until nothing can be had now; the bodies that came."""
        bodies = []
        while delivered := self.queue.deliver(function, **PATIENCE):
            body = delivered[0]["Body"]
            bodies.append(json.loads(body) if body.startswith("{") else body)
            self.assertLess(len(bodies), 50)
        return bodies

    def commits(self):
        """Destination and day of every commit that the function logged, in order."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if "RunsCommitted" in line]
        return [(line["destination"], line["date"]) for line in lines]

    def failures(self):
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if '"errorType"' in line)
        return [(line["errorType"], [run["state"] for run in line["answer"]["runs"]]) for line in lines]

    def landed(self, bucket):
        return {name: (self.buckets / bucket / name).read_bytes() for name in files_in(self.buckets / bucket)
                if "_dayport/" not in name}

    def test_a_schedule_is_queued_and_each_message_lands_its_run_once(self):
        with self.function() as function:
            self.assertEqual(self.states(function, SCHEDULED), {(name, DAY): "queued" for name in ALL})
            self.assertEqual(self.queue.counts(), (4, 0))
            self.assertEqual([files_in(self.buckets / name) for name in ALL], [[]] * 4)
            bodies = self.deliver_all(function)
            self.assertEqual({body["destination"]: body["date"] for body in bodies}, dict.fromkeys(ALL, DAY))
            self.assertEqual(sorted(self.commits()), sorted((name, DAY) for name in ALL))
            # The same trigger again: a queue, and whoever sends to it, may do so.
            self.states(function, SCHEDULED)
            self.deliver_all(function)
            self.assertEqual(len(self.commits()), 4)
            self.assertEqual((self.queue.counts(), self.queue.dead_letters()), ((0, 0), []))
        self.assertEqual(self.failures(), [])

    def test_the_days_of_a_destination_follow_each_other_and_those_of_several_do_not_wait(self):
        names = ["acme-parquet", "globex-json"]
        with self.function() as function:
            event = {"from": DAY_BEFORE, "to": DAY, "destination": names}
            queued = self.states(function, event)
            self.assertEqual(queued, {(name, day): "queued" for name in names for day in (DAY_BEFORE, DAY)})
            self.assertEqual(self.queue.counts(), (2, 0))
            self.assertEqual(len(self.deliver_all(function)), 4)
            for name in names:
                self.assertEqual([day for known, day in self.commits() if known == name], [DAY_BEFORE, DAY])

    def test_one_day_by_hand_is_answered_at_once(self):
        with self.function() as function:
            states = self.states(function, {"date": DAY, "destination": "acme-json"})
            self.assertEqual(states, {("acme-json", DAY): "committed"})
            self.assertEqual(self.queue.counts(), (0, 0))

    def test_a_run_that_is_continued_goes_on_by_a_message_of_its_own_and_lands_the_same_bytes(self):
        # Each staged object is a shard; a fifth of a second after its start an invocation begins no other.
        self.config.write_text(self.config.read_text().replace('lease = "1s"', 'lease = "100ms"')
                               + 'shard_size = 1\ndeadline_margin = "60s"\n')
        with self.function() as function:
            self.states(function, {"date": DAY, "destination": "acme-parquet"})
        at_once = self.landed("acme-parquet")
        for bucket in ("acme-parquet", "dayport-state"):
            shutil.rmtree(self.buckets / bucket)
            (self.buckets / bucket).mkdir()
        self.queue.send({"destination": "acme-parquet", "date": DAY})
        seen = []
        with self.function() as function:
            while self.queue.counts() != (0, 0):
                limits = {"remaining": 60.2, "patience": 180} if len(seen) < 2 else PATIENCE
                message, done = self.queue.deliver(function, **limits)
                self.assertTrue(done, "a message that goes on is deleted")
                self.assertEqual(message["Attributes"]["ApproximateReceiveCount"], "1")
                seen.append(message["MessageId"])
        self.assertEqual((len(seen), len(set(seen))), (3, 3))
        self.assertEqual(self.commits(), [("acme-parquet", DAY)] * 2)
        self.assertGreater(len(at_once), 20)
        self.assertEqual(self.landed("acme-parquet"), at_once)

    def test_what_somebody_must_mend_is_a_dead_letter_and_works_when_it_is_sent_back(self):
        gone = self.buckets / "acme-json"
        gone.rmdir()
        with self.function() as function:
            self.states(function, SCHEDULED)
            self.deliver_all(function)
            self.assertEqual(sorted({name for name, _ in self.commits()}), sorted({*ALL} - {"acme-json"}))
            [letter] = self.queue.dead_letters()
            self.assertEqual((letter["destination"], letter["date"], letter["error"]["kind"]), ("acme-json", DAY, "customer"))
            self.assertEqual(self.failures(), [("Dayport.Customer", ["failed"])])
            gone.mkdir()
            self.queue.send(letter)
            self.deliver_all(function)
            self.assertIn(("acme-json", DAY), self.commits())
            self.queue.send("not a job")
            self.queue.send({"destination": "nobody", "date": DAY})
            self.deliver_all(function)
            first, second = self.queue.dead_letters()
        self.assertEqual(first["message"], "not a job")
        self.assertIn("there is no destination `nobody`", second["error"]["message"])
        self.assertEqual(self.queue.counts(), (0, 0))

    def test_what_time_may_mend_comes_back_later_and_holds_up_no_other_day(self):
        late = self.buckets / "dayport-staging/events" / DAY_BEFORE
        away = WORK / "away"
        shutil.rmtree(away, ignore_errors=True)
        shutil.move(late, away)
        with self.function() as function:
            self.states(function, {"from": DAY_BEFORE, "to": DAY, "destination": ["acme-json"]})
            bodies = self.deliver_all(function)
            self.assertEqual([body["date"] for body in bodies], [DAY_BEFORE, DAY])
            self.assertEqual(self.commits(), [("acme-json", DAY)])
            # In a minute it comes again: it was sent anew, since what came after it had to go on.
            delayed = self.sqs.get_queue_attributes(QueueUrl=self.queue.url,
                                                    AttributeNames=["ApproximateNumberOfMessagesDelayed"])
            self.assertEqual(delayed["Attributes"]["ApproximateNumberOfMessagesDelayed"], "1")
            self.sqs.purge_queue(QueueUrl=self.queue.url)
            self.queue.send({"destination": "acme-json", "date": DAY_BEFORE})
            for receives in ("1", "2", "3"):
                message, done = self.queue.deliver(function, **PATIENCE)
                self.assertFalse(done)
                self.assertEqual(message["Attributes"]["ApproximateReceiveCount"], receives)
                self.assertEqual(self.queue.counts(), (0, 1), "it can't be had now")
                self.queue.turn_the_clock(message)
            shutil.move(away, late)
            self.deliver_all(function)
            self.assertEqual(self.commits(), [("acme-json", DAY), ("acme-json", DAY_BEFORE)])
        self.assertEqual({kind for kind, _ in self.failures()}, {"Dayport.Retryable"})
        self.assertEqual((self.queue.counts(), self.queue.dead_letters()), ((0, 0), []))

    def test_the_message_of_an_invocation_that_died_comes_back_and_its_run_is_finished(self):
        self.queue.send({"destination": "acme-parquet", "date": DAY_BEFORE, "then": [DAY]})
        message = self.queue.receive()
        died = threading.Event()

        def hand_over(function):
            try:
                function.invoke(self.queue.event(message), **PATIENCE)
            except AssertionError:
                died.set()

        with self.function() as function:
            thread = threading.Thread(target=hand_over, args=(function,))
            thread.start()
            runs = self.buckets / "dayport-state/dayport/runs"
            until = time.monotonic() + 60
            while not list(runs.rglob("state.json")):
                self.assertLess(time.monotonic(), until, "the run never began")
                time.sleep(0.005)
            function.process.kill()
            thread.join()
        self.assertTrue(died.is_set(), "it ended before it was killed")
        self.assertEqual((self.commits(), self.queue.counts()), ([], (0, 1)))
        self.queue.turn_the_clock(message)
        with self.function() as function:
            bodies = self.deliver_all(function)
        # It comes again, is parted from the day after it, and both are run.
        self.assertEqual(bodies[0], {"destination": "acme-parquet", "date": DAY_BEFORE, "then": [DAY]})
        self.assertEqual(len(bodies), 3)
        self.assertEqual(sorted(self.commits()), [("acme-parquet", DAY_BEFORE), ("acme-parquet", DAY)])
        self.assertEqual((self.queue.counts(), self.queue.dead_letters()), ((0, 0), []))

    def test_a_queue_that_the_configuration_does_not_name_is_an_error(self):
        other = Queue(self.sqs, "another")
        other.send({"destination": "acme-json", "date": DAY})
        with self.function() as function:
            outcome = function.invoke(other.event(other.receive()), **PATIENCE)
        self.assertEqual(outcome.error["errorType"], "Dayport.Vendor")
        self.assertIn(other.arn(), outcome.error["errorMessage"])


if __name__ == "__main__":
    lab.stop_on_signals()
    lab.refuse_missing(lab.CLI, lab.ARTEFACT)
    unittest.main(verbosity=2)
