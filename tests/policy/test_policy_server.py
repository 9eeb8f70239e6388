"""Whole days against a server that enforces bucket policies across accounts, with nothing but the printed policy attached.

`make policy-server-test`. Then each action of the policy is taken away in turn, and `dayport check` must name it and no other. Where this
server is not as AWS is, the output says so, and what was done about it.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import boto3
import rgw
from botocore.config import Config
from botocore.exceptions import ClientError
from rights import CUSTOMER, ROOT, VENDOR

sys.path.insert(0, str(ROOT / "scripts"))

import lab  # noqa: E402

US = rgw.Identity(VENDOR, "dayport")
THEM = rgw.Identity(CUSTOMER, "owner")
# Whoever must not get in: another user of ours, and one of our name in a third account.
OTHERS = (rgw.Identity(VENDOR, "other"), rgw.Identity("222233334444", "dayport"))
OWN_BUCKETS = ("dayport-staging", "dayport-state")
ACL = {"acl": "bucket-owner-full-control"}
PONTOON = {"layout": "pontoon"}
CASES = {
    "permutive": {},
    "permutive-json": {"format": "json", "s3_prefix": "50% off+é/a b"},
    "permutive-acl": ACL,
    "permutive-root": {"s3_prefix": "", **ACL},
    "permutive-verify": {"verify": True},
    "permutive-sweep": {"sweep": True},
    "pontoon": PONTOON,
    "pontoon-acl": {**PONTOON, **ACL},
    "pontoon-every": {**PONTOON, **ACL, "verify": True, "sweep": True},
}
OUT = ROOT / "target/policy"
# What this server lets us do though the policy does not.
GRANTED_OTHERWISE = {
    "s3:GetObject": "whoever uploads owns the object, and its ACL lets the owner read; on AWS `BucketOwnerEnforced` switches that off",
    "s3:PutObjectAcl": "an upload may name an ACL without it; on AWS the request needs it too",
}
# A Deny is obeyed all the same, where it can say the same.
DENIABLE = {"s3:GetObject"}


def configuration(cases, **more):
    text = """
[staging]
s3_bucket = "dayport-staging"
[state]
s3_bucket = "dayport-state"
"""
    for name, options in cases.items():
        keys = {"name": name, "s3_bucket": bucket_of(name), "s3_prefix": "exports", **options, **more}
        text += "[[destination]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    return text


def bucket_of(name):
    return f"{name}-bucket"


def prefix_of(name):
    prefix = CASES[name].get("s3_prefix", "exports")
    return f"{prefix}/" if prefix else ""


def tenant_of(bucket):
    return VENDOR if bucket in OWN_BUCKETS else CUSTOMER


def client(endpoint):
    """A client of a proxy, which signs in its own name."""
    plain = Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required",
                   response_checksum_validation="when_required", retries={"total_max_attempts": 1})
    return boto3.client("s3", endpoint_url=endpoint, region_name=rgw.REGION, aws_access_key_id="any", aws_secret_access_key="any", config=plain)


def code(request, **arguments):
    """What a request comes to: `None`, or S3's code."""
    try:
        request(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


class PolicyServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lab.refuse_missing(lab.CLI)
        rgw.install()
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="rgw-")))
        cls.folder = folder
        cls.server = cls.enterClassContext(rgw.running(folder / "ceph"))
        for identity in (US, THEM, *OTHERS):
            cls.server.add(identity)
        cls.endpoint = cls.proxy(US)
        cls.us, cls.them = client(cls.endpoint), client(cls.proxy(THEM))
        cls.said = []
        cls.cases = cls.supported()
        cls.config = folder / "dayport.toml"
        cls.config.write_text(configuration(cls.cases))
        for bucket in OWN_BUCKETS:
            cls.us.create_bucket(Bucket=bucket)
        cls.policies = {}
        for name in cls.cases:
            cls.them.create_bucket(Bucket=bucket_of(name))
            cls.policies[name] = json.loads(lab.call(cls.printing(name, cls.config), lab.environment()))
            cls.attach(name, cls.policies[name])
        lab.stage_sample(cls.endpoint, 400)
        cls.say(f"the server is Ceph's object gateway {cls.server.version()}; tenants stand for accounts, and {US.arn} for the function's role")
        cls.say("the account's own identity policy is no part of it: a user may do everything that no bucket's policy or ACL decides (make test evaluates both sides)")

    @classmethod
    def proxy(cls, identity, is_plain=False):
        endpoint, _ = cls.enterClassContext(cls.server.as_seen_by(identity, tenant_of, is_plain))
        return endpoint

    @classmethod
    def supported(cls):
        """The cases whose options this build takes; of the others it is said that they are left out."""
        cases = {}
        for name, options in CASES.items():
            config = cls.folder / "one.toml"
            config.write_text(configuration({name: options}))
            done = subprocess.run(cls.printing(name, config), env=lab.environment(), capture_output=True, text=True)
            if done.returncode == 0:
                cases[name] = options
            elif "not yet supported" in done.stderr:
                cls.say(f"left out: {name}, since this build does not take its options yet")
            else:
                raise SystemExit(done.stderr)
        return cases

    @staticmethod
    def printing(name, config):
        return [lab.CLI, "policy", name, "--config", config, "--principal", US.arn]

    @classmethod
    def say(cls, text):
        cls.said.append(text)
        print(f"  {text}", file=sys.stderr, flush=True)

    @classmethod
    def tearDownClass(cls):
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "server.txt").write_text("".join(f"{line}\n" for line in cls.said))

    @classmethod
    def attach(cls, name, policy):
        cls.them.put_bucket_policy(Bucket=bucket_of(name), Policy=json.dumps(policy))

    @contextlib.contextmanager
    def policy(self, name, policy):
        """Another policy on the bucket, for the length of a block."""
        self.attach(name, policy)
        try:
            yield
        finally:
            self.attach(name, self.policies[name])

    def check(self, name, endpoint=None, config=None):
        argv = [lab.CLI, "check", name, "--config", config or self.config, "--output", "json"]
        return lab.answer_of(lab.call(argv, lab.environment(endpoint or self.endpoint), check=False))["check"]

    def keys(self, name):
        pages = self.them.get_paginator("list_objects_v2").paginate(Bucket=bucket_of(name))
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def uploads(self, name):
        return self.them.list_multipart_uploads(Bucket=bucket_of(name)).get("Uploads", [])

    def tidy(self, name):
        """Takes away what a check said that it left; gives how much that was."""
        uploads = self.uploads(name)
        for upload in uploads:
            self.them.abort_multipart_upload(Bucket=bucket_of(name), Key=upload["Key"], UploadId=upload["UploadId"])
        probes = [key for key in self.keys(name) if key.endswith("_dayport/check.txt")]
        for key in probes:
            self.them.delete_object(Bucket=bucket_of(name), Key=key)
        return len(uploads) + len(probes)

    def refused(self, report):
        """The steps that were refused, and the actions that their messages call most likely missing."""
        lines = [line for line in report["steps"] if line["outcome"] == "refused"]
        actions = set()
        for line in lines:
            # What the test found out goes before what the answer alone could tell.
            told = re.search(r"so `(s3:\w+)` is missing", line["message"]) or re.search(r"most likely `(s3:\w+)`", line["message"])
            if told:
                actions.add(told[1])
        return [line["step"] for line in lines], actions

    def test_1_a_whole_day_lands_under_the_printed_policy_alone(self):
        first = lab.run_day(self.endpoint, self.config)
        names = {run["destination"] for run in first["runs"]}
        self.assertEqual(names, set(self.cases))
        before = {name: self.keys(name) for name in self.cases}
        # A day that is run again without one of its tables: `permutive` deletes what it no longer has.
        staged = self.us.list_objects_v2(Bucket="dayport-staging", Prefix=f"events/{lab.DATE}/aliases/")["Contents"]
        folder = self.folder / "staged"
        self.download(self.us, "dayport-staging", folder)
        for item in staged:
            self.us.delete_object(Bucket="dayport-staging", Key=item["Key"])
        again = lab.run_day(self.endpoint, self.config, "--force")
        shutil.rmtree(folder / f"events/{lab.DATE}/aliases")
        for run in again["runs"]:
            name = run["destination"]
            options, keys = self.cases[name], self.keys(name)
            listed = [file["key"] for table in run["tables"] for file in table["files"]]
            self.assertGreater(len(listed), 5, name)
            self.assertLessEqual(set(listed), set(keys), name)
            self.assertTrue(all(key.startswith(prefix_of(name)) for key in keys), (name, keys))
            self.assertEqual(self.uploads(name), [], name)
            gone = {key for key in before[name] if "/aliases/" in key} - set(keys)
            self.assertEqual(bool(gone), options.get("layout") != "pontoon", (name, gone))
            self.compare(name, options, folder)
            self.say(f"{name}: two days committed, {len(keys)} objects, {len(gone)} deleted, every value read back")

    def compare(self, name, options, staged):
        """Reads back as the customer where the ACL lets them, as ourselves where only the owner may."""
        key = self.keys(name)[0]
        is_readable = code(self.them.get_object, Bucket=bucket_of(name), Key=key) is None
        self.assertEqual(is_readable, "acl" in options, name)
        landed = self.folder / "landed" / name
        self.download(self.them if is_readable else self.us, bucket_of(name), landed, self.keys(name))
        lab.compare_folders(staged / "events" / lab.DATE, landed / prefix_of(name),
                            options.get("format", "parquet"), options.get("layout", "permutive"))

    def download(self, reader, bucket, folder, keys=None):
        if keys is None:
            keys = [item["Key"] for item in reader.list_objects_v2(Bucket=bucket).get("Contents", [])]
        for key in keys:
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(reader.get_object(Bucket=bucket, Key=key)["Body"].read())

    def test_2_a_check_under_the_printed_policy_is_refused_nothing(self):
        for name in self.cases:
            report = self.check(name)
            self.assertEqual(self.refused(report), ([], set()), (name, report))
            left = self.tidy(name)
            self.assertEqual(left, len(report["left_behind"]), (name, report))
            self.assertEqual(left, int(self.cases[name].get("layout") == "pontoon"), (name, report))

    def test_3_without_each_action_in_turn_the_check_names_it_and_no_other(self):
        for name in self.cases:
            for statement in self.policies[name]["Statement"]:
                for action in statement["Action"]:
                    policy = without(self.policies[name], action)
                    note = ""
                    if action in GRANTED_OTHERWISE:
                        with self.policy(name, policy):
                            steps, _ = self.refused(self.check(name))
                            self.tidy(name)
                        self.assertEqual(steps, [], f"{name}: this server has come to refuse without {action}")
                        note = GRANTED_OTHERWISE[action]
                        if action not in DENIABLE:
                            self.say(f"{name} without {action}: not refused here ({note}); `make test` refuses it at a gate before `dayport local`")
                            continue
                        note = f" (denied by a statement, since {note})"
                        policy["Statement"].append({"Effect": "Deny", "Action": action, "Principal": statement["Principal"],
                                                    "Resource": statement["Resource"]})
                    with self.policy(name, policy):
                        report = self.check(name)
                    steps, actions = self.refused(report)
                    self.assertEqual(actions, {action}, (name, report))
                    self.assertEqual(self.tidy(name), len(report["left_behind"]), (name, action, report))
                    self.say(f"{name} without {action}: refused at {', '.join(steps)}; `{action}` is named{note}")

    def test_4_without_a_policy_for_us_nothing_is_allowed_and_the_check_says_so(self):
        name = "permutive"
        printed = self.policies[name]
        text = json.dumps(printed)
        others = {
            "no policy": {**printed, "Statement": [{**printed["Statement"][0], "Principal": {"AWS": THEM.arn}}]},
            "another user of our account": json.loads(text.replace(US.arn, OTHERS[0].arn)),
            "our name in another account": json.loads(text.replace(US.arn, OTHERS[1].arn)),
            "another prefix": json.loads(text.replace("/exports/*", "/elsewhere/*")),
            "a longer folder's name": json.loads(text.replace("/exports/*", "/exports2/*")),
        }
        for what, policy in others.items():
            with self.policy(name, policy):
                report = self.check(name)
            steps, actions = self.refused(report)
            self.assertEqual((steps, actions), (["create", "abort"], {"s3:PutObject", "s3:AbortMultipartUpload"}), (what, report))
            self.assertIn("the bucket policy is most likely not applied, or names another principal or prefix", json.dumps(report))
            self.say(f"{what}: refused at {', '.join(steps)}")
        report = self.check(name, self.proxy(US, is_plain=True))
        self.assertEqual(self.refused(report)[0], ["create", "abort"], report)
        self.say("plain HTTP: refused at create, abort")

    def test_5_nothing_else_is_allowed_to_us_and_nothing_to_others(self):
        tried = 0
        for name in self.cases:
            bucket, prefix, options = bucket_of(name), prefix_of(name), self.cases[name]
            inside, outside = f"{prefix}data/x", "beside-all-of-it/x"
            put = {"Bucket": bucket, "Body": b"x"}
            refused = [
                ("get the policy", self.us.get_bucket_policy, {"Bucket": bucket}),
                ("put a policy", self.us.put_bucket_policy, {"Bucket": bucket, "Policy": json.dumps(self.policies[name])}),
                ("delete the bucket", self.us.delete_bucket, {"Bucket": bucket}),
                ("list versions", self.us.list_object_versions, {"Bucket": bucket}),
            ]
            if prefix:
                refused += [
                    ("put beside the prefix", self.us.put_object, {**put, "Key": outside}),
                    ("begin an upload beside the prefix", self.us.create_multipart_upload, {"Bucket": bucket, "Key": outside}),
                    ("put at the folder's own name", self.us.put_object, {**put, "Key": prefix[:-1]}),
                    ("delete beside the prefix", self.us.delete_object, {"Bucket": bucket, "Key": outside}),
                    ("get beside the prefix", self.us.get_object, {"Bucket": bucket, "Key": outside}),
                ]
            if not options.get("verify"):
                refused += [
                    ("list", self.us.list_objects_v2, {"Bucket": bucket, "Prefix": prefix}),
                    ("get another's object", self.us.get_object, {"Bucket": bucket, "Key": f"{prefix}theirs"}),
                ]
                self.them.put_object(**put, Key=f"{prefix}theirs")
            else:
                refused += [("list everything", self.us.list_objects_v2, {"Bucket": bucket}),
                            ("list another prefix", self.us.list_objects_v2, {"Bucket": bucket, "Prefix": "beside"})]
            if not options.get("sweep"):
                refused.append(("list uploads", self.us.list_multipart_uploads, {"Bucket": bucket}))
            if options.get("layout") == "pontoon":
                refused.append(("delete", self.us.delete_object, {"Bucket": bucket, "Key": inside}))
            for identity in OTHERS:
                other = client(self.proxy(identity))
                refused += [(f"put as {identity.arn}", other.put_object, {**put, "Key": inside}),
                            (f"abort as {identity.arn}", other.abort_multipart_upload, {"Bucket": bucket, "Key": inside, "UploadId": "x"})]
            for what, request, arguments in refused:
                self.assertEqual(code(request, **arguments), "AccessDenied", f"{name}: {what}")
                tried += 1
            self.them.delete_object(Bucket=bucket, Key=f"{prefix}theirs")
        self.say(f"{tried} requests that no run makes: all refused")

    def test_6_where_the_server_is_not_as_aws_is(self):
        bucket, key = bucket_of("permutive"), "exports/differences"
        put = {"Bucket": bucket, "Key": key, "Body": b"x"}

        # Conditional writes: on our side alone, for state.
        raw = client(self.enterClassContext(self.server.as_seen_by(US, tenant_of, adapts_etags=False))[0])
        etag = self.us.put_object(Bucket="dayport-state", Key="differences", Body=b"1")["ETag"]
        state = {"Bucket": "dayport-state", "Key": "differences", "Body": b"2"}
        self.assertEqual(code(self.us.put_object, **state, IfNoneMatch="*"), "PreconditionFailed")
        self.assertEqual(code(self.us.put_object, **state, IfMatch='"00000000000000000000000000000000"'), "PreconditionFailed")
        self.assertEqual(code(raw.put_object, **state, IfMatch=etag), "PreconditionFailed")
        self.assertIsNone(code(self.us.put_object, **state, IfMatch=etag))
        self.say("conditional writes: If-None-Match holds; If-Match on a put holds only for an ETag without its quotes, so the proxy takes them off")
        self.say("conditional completion: not tried, since a commit puts no condition on CompleteMultipartUpload")

        # Checksums.
        wrong = {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}
        self.assertIsNone(self.answer_with(put, wrong))
        self.say("CRC64NVME: the header is taken and not looked at (a wrong one lands too); `make test` proves on `dayport local` that a flipped bit can't land")

        # The account that must own the bucket.
        self.assertIsNone(code(self.us.put_object, **put, ExpectedBucketOwner="999999999999"))
        self.say("x-amz-expected-bucket-owner: not looked at, so a wrong account is not refused here; `dayport local` refuses it")

        # Encryption, and Deny statements about it.
        aes = code(self.us.put_object, **put, ServerSideEncryption="AES256")
        kms = code(self.us.put_object, **put, ServerSideEncryption="aws:kms", SSEKMSKeyId="arn:aws:kms:eu-central-1:111122223333:key/x")
        self.say(f"encryption without a key service: `AES256` comes to {aes or 'a plain write, as if not asked for'}, `aws:kms` to {kms or 'a plain write, as if not asked for'}")
        denies = {"Sid": "OnlyKms", "Effect": "Deny", "Principal": {"AWS": US.arn}, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/exports/*"}
        condition = {"StringNotEqualsIfExists": {"s3:x-amz-server-side-encryption": "aws:kms"}}
        printed = self.policies["permutive"]
        with self.policy("permutive", {**printed, "Statement": [*printed["Statement"], {**denies, "Condition": condition}]}):
            found = code(self.us.put_object, **put)
            steps, _ = self.refused(self.check("permutive"))
            self.tidy("permutive")
        self.say("a Deny with `StringNotEqualsIfExists` on the encryption header: an upload without the header is "
                 f"{'refused' if found else 'allowed'} (`check` is refused at: {', '.join(steps) or 'nothing'}); AWS refuses it, and its parts too")

        # Wildcards that are meant as letters.
        statement = {**printed["Statement"][0], "Resource": f"arn:aws:s3:::{bucket}/${{*}}/*"}
        with self.policy("permutive", {**printed, "Statement": [*printed["Statement"], statement]}):
            found = code(self.us.put_object, **{**put, "Key": "*/x"})
        self.assertEqual(found, "AccessDenied")
        self.say("`${*}`, `${?}` and `${$}` in a policy are not read as letters here, so no prefix with them was tried; the evaluator of `make test` reads them")

        # Who owns what was uploaded.
        ownership = next(line for line in self.check("permutive")["steps"] if line["step"] == "ownership")
        self.assertEqual(ownership["outcome"], "warning", ownership)
        self.assertIn("ACLs enabled", ownership["message"])
        self.say("ownership: there is no BucketOwnerEnforced, so each bucket here is one of AWS's older ones, and `check` warns of it; without `acl` the customer can't read what lands")
        self.us.delete_object(Bucket=bucket, Key=key)

    def answer_with(self, put, headers):
        """A put with further headers, which boto3 would set by itself or not at all."""
        sender = client(self.endpoint)
        sender.meta.events.register("before-call.s3.PutObject", lambda params, **_: params["headers"].update(headers))
        return code(sender.put_object, **put)


def without(policy, action):
    """The policy without one action; a statement that has no other goes with it."""
    policy = json.loads(json.dumps(policy))
    for statement in policy["Statement"]:
        statement["Action"] = [kept for kept in statement["Action"] if kept != action]
    policy["Statement"] = [statement for statement in policy["Statement"] if statement["Action"]]
    return policy


if __name__ == "__main__":
    lab.stop_on_signals()
    unittest.main(verbosity=2)
