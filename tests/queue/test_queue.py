"""A staging queue behind a real SQS API (moto's), drained by the command line into `dayport local`: exact rows, whatever comes twice.

CI sends 10,000; MESSAGES=100000 sends more.
"""

import collections
import concurrent.futures
import datetime
import gzip
import json
import os
import pathlib
import sys
import tempfile
import unittest

import boto3
from botocore.config import Config

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import lab  # noqa: E402
from redelivering import redelivering  # noqa: E402

MESSAGES = int(os.environ.get("MESSAGES", "10000"))
MOTO = pathlib.Path(__file__).resolve().parent / "moto_sqs.py"
LOGS = lab.ROOT / "target/queue"


def today():
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def record(event_id):
    return json.dumps({"event_name": "Pageview", "time": f"{today()}T00:00:00Z", "event_id": event_id})


def created(key, etag=None):
    """S3's own notification: the key is URL-encoded, and a space is a plus sign."""
    from urllib.parse import quote_plus
    known = {"key": quote_plus(key, safe="/"), **({"eTag": etag} if etag else {})}
    event = {"eventVersion": "2.1", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put",
             "s3": {"bucket": {"name": "staging"}, "object": known}}
    return json.dumps({"Records": [event]})


def bridged(key):
    """EventBridge's: the key is as it is."""
    return json.dumps({"version": "0", "source": "aws.s3", "detail-type": "Object Created",
                       "detail": {"bucket": {"name": "staging"}, "object": {"key": key}}})


def in_sns(message):
    return json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:us-east-1:123456789012:topic", "Message": message})


class Queue(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(tempfile.TemporaryDirectory(prefix="dayport-queue-"))
        self.folder = pathlib.Path(self.stack)
        self.buckets = self.folder / "s3"
        for bucket in ("staging", "state", "acme"):
            (self.buckets / bucket).mkdir(parents=True)
        ports = lab.free_port(), lab.free_port()
        self.enterContext(lab.running([lab.CLI, "local", "--root", self.buckets, "--port", ports[0]],
                                      LOGS / "local.log", lab.environment(), ports[0]))
        self.enterContext(lab.running([sys.executable, MOTO, "-H", "127.0.0.1", "-p", str(ports[1])], LOGS / "moto.log",
                                      lab.environment(), ports[1], seconds=60))
        self.proxy = self.enterContext(redelivering(ports[1]))
        self.s3 = f"http://127.0.0.1:{ports[0]}"
        self.sqs = boto3.client("sqs", endpoint_url=f"http://127.0.0.1:{ports[1]}", region_name="us-east-1",
                                aws_access_key_id="local", aws_secret_access_key="localsecret",
                                config=Config(max_pool_connections=8))
        self.queue = self.sqs.create_queue(QueueName="events")["QueueUrl"]
        self.started = today()

    def configure(self, prefix):
        name = self.queue.rsplit("/", 2)
        (self.folder / "dayport.toml").write_text(f"""
            [staging]
            s3_bucket = "staging"
            s3_prefix = "{prefix}"
            sqs_queue_url = "{self.proxy.url}/{name[1]}/{name[2]}"
            allow_empty_day = true
            [state]
            s3_bucket = "state"
            [[destination]]
            name = "acme"
            s3_bucket = "acme"
            format = "json"
        """)

    def stage(self, key, event_id):
        path = self.buckets / "staging" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record(event_id) + "\n")

    def send(self, bodies):
        def batch(start):
            entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(bodies[start:start + 10])]
            answer = self.sqs.send_message_batch(QueueUrl=self.queue, Entries=entries)
            self.assertEqual(answer.get("Failed", []), [])

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(batch, range(0, len(bodies), 10)))

    def run_days(self):
        """Runs every UTC day that this test has seen: SQS stamps a message with its own time."""
        env = lab.environment(self.s3, AWS_ENDPOINT_URL_SQS=self.proxy.url)
        answer = lab.answer_of(lab.call([lab.CLI, "run", "--config", self.folder / "dayport.toml", "--from", self.started,
                                         "--to", today(), "--output", "json"], env))
        self.assertLessEqual({run["state"] for run in answer["runs"]}, {"committed", "already_committed"}, answer)
        return answer["runs"]

    def landed(self):
        ids = collections.Counter()
        for path in (self.buckets / "acme/data").rglob("*.json.gz"):
            ids.update(json.loads(line)["event_id"] for line in gzip.decompress(path.read_bytes()).splitlines())
        return ids

    def left(self):
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return sum(int(attributes[name]) for name in names)

    def test_every_record_of_very_many_messages_lands_once_though_one_in_ten_is_delivered_twice(self):
        self.configure("events/{date}/")
        bodies, wanted = [], set()
        for number in range(MESSAGES - 60):
            ids = [f"m-{number}-{line}" for line in range(1 + number % 2)]
            wanted.update(ids)
            lines = "\n".join(record(event_id) for event_id in ids)
            bodies.append(in_sns(lines) if number % 50 == 0 else lines)
        for number in range(20):
            key = f"events/{self.started}/object {number}+ü.ndjson"
            self.stage(key, f"o-{number}")
            wanted.add(f"o-{number}")
            # Listed, and notified in each of the forms.
            bodies += [created(key), in_sns(created(key)), bridged(key)]
        self.send(bodies)
        self.assertEqual(self.left(), MESSAGES)
        delivered = sum(run["counts"]["delivered"] for run in self.run_days())
        landed = self.landed()
        twice = {event_id for event_id, count in landed.items() if count > 1}
        self.assertEqual(twice, set())
        self.assertEqual(set(landed), wanted)
        self.assertEqual(delivered, len(wanted))
        self.assertEqual(self.left(), 0)
        self.assertGreater(self.proxy.redelivered, MESSAGES // 20)
        self.assertEqual(self.proxy.waiting, [], "every chosen message came twice")
        print(f"{MESSAGES} messages, {self.proxy.redelivered} of them delivered twice: {delivered} rows", file=sys.stderr)

    def test_objects_of_a_prefix_without_a_day_land_once_and_nothing_else_of_the_bucket_is_read(self):
        self.configure("staged/")
        wanted = {f"o-{number}" for number in range(60)}
        bodies = []
        for number in range(60):
            key = f"staged/a b/{number}%2B+.ndjson"
            self.stage(key, f"o-{number}")
            bodies += [created(key), bridged(key)]
        for key in ("elsewhere/x.ndjson", "staged2/x.ndjson", "staged/never-told.ndjson"):
            self.stage(key, "never")
        bodies += [created("elsewhere/x.ndjson"), bridged("staged2/x.ndjson"), created("staged/../elsewhere/x.ndjson"), "hopeless"]
        self.send(bodies)
        self.run_days()
        self.assertEqual(self.landed(), collections.Counter(wanted))
        self.assertEqual(self.left(), 0)
        refused = []
        for path in (self.buckets / "state/dayport/spool/events/quarantine").rglob("*.ndjson.gz"):
            refused += [json.loads(line)["reason"] for line in gzip.decompress(path.read_bytes()).splitlines()]
        self.assertEqual(set(refused), {"outside_staging", "not_records"})


if __name__ == "__main__":
    lab.stop_on_signals()
    lab.refuse_missing(lab.CLI)
    unittest.main(verbosity=2)
