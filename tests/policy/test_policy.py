"""Both sides' policies, as printed and as deployed, against every request that real runs made, by an evaluator that is not ours.

Whole days and connection tests run against the local S3 through a recorder, by layout and option. Each recorded request must be allowed
across accounts under the bucket policy that `dayport policy` prints *and* the role policy of `template.yaml`; none of a list of forbidden
ones may be.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import recorder
import rights
from rights import CUSTOMER, ROLE, ROOT, VENDOR

sys.path.insert(0, str(ROOT / "scripts"))

import lab  # noqa: E402

KEY = f"arn:aws:kms:eu-central-1:{CUSTOMER}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LOCAL_OWNER = "123456789012"
KMS = {"encryption": "aws:kms", "kms_key_arn": KEY}
ACL = {"acl": "bucket-owner-full-control"}
CASES = {
    "permutive": {},
    "pontoon": {"layout": "pontoon"},
    "permutive-json": {"format": "json", "manifest": False},
    "permutive-acl": ACL,
    "pontoon-acl": {"layout": "pontoon", **ACL},
    "permutive-kms": KMS,
    "pontoon-kms": {"layout": "pontoon", **KMS},
    "permutive-owner": {"expected_bucket_owner": LOCAL_OWNER, "requester_pays": True},
    "permutive-root": {"s3_prefix": ""},
    "permutive-odd": {"s3_prefix": "50% off*/a b", **ACL},
    "pontoon-odd": {"s3_prefix": "a?b$c/x", "layout": "pontoon"},
    "permutive-verify": {"verify": True},
    "pontoon-verify": {"layout": "pontoon", "verify": True},
    "permutive-sweep": {"sweep": True},
    "pontoon-every": {"layout": "pontoon", "verify": True, "sweep": True, **ACL},
}
OUT = ROOT / "target/policy"


def toml(value):
    return json.dumps(value)


def configuration():
    text = f"""
[staging]
s3_bucket = "dayport-staging"
[state]
s3_bucket = "dayport-state"
[run]
function_role_arn = "{ROLE}"
"""
    for name, options in CASES.items():
        keys = {"name": name, "s3_bucket": f"{name}-bucket", "s3_prefix": "exports", **options}
        text += "[[destination]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
    return text


def prefix_of(name):
    prefix = CASES[name].get("s3_prefix", "exports")
    return f"{prefix}/" if prefix else ""


def escaped(text):
    """As IAM reads it literally; written apart from the code that is tested."""
    return re.sub(r"[*?$]", lambda letter: "${" + letter[0] + "}", text)


def objects_of(names):
    return [f"arn:aws:s3:::{name}-bucket/{escaped(prefix_of(name))}*" for name in names]


def with_option(option):
    return [name for name, options in CASES.items() if options.get(option)]


def parameters():
    """The stack's parameters for these destinations, by the table of docs/onboarding.md."""
    return {
        "StagingBucket": "dayport-staging",
        "StateBucketName": "dayport-state",
        "RoleName": "dayport",
        "DestinationObjects": objects_of(CASES),
        "DeletableObjects": objects_of(name for name, options in CASES.items() if options.get("layout") != "pontoon"),
        "AclObjects": objects_of(name for name, options in CASES.items() if "acl" in options),
        "VerifyObjects": objects_of(with_option("verify")),
        "VerifyBuckets": [f"arn:aws:s3:::{name}-bucket" for name in with_option("verify")],
        "VerifyPrefixes": [f"{escaped(prefix_of(name))}*" for name in with_option("verify")],
        "SweepBuckets": [f"arn:aws:s3:::{name}-bucket" for name in with_option("sweep")],
        "KmsKeyArns": [KEY],
    }


class Questions:
    """Requests to be evaluated at once, each with what must come of it."""

    def __init__(self):
        self.asked, self.expected = [], []

    def ask(self, expected, what, need, *, principal=ROLE, account=CUSTOMER, identity=(), policy=None):
        action, resource, context = need
        self.asked.append({"principal": principal, "action": action, "resource": resource, "account": account,
                           "context": context, "identity": list(identity), "policy": policy})
        self.expected.append((expected, what))

    def answers(self):
        done = subprocess.run(["node", "evaluate.mjs"], cwd=ROOT / "tests/policy", input=json.dumps(self.asked), text=True,
                              capture_output=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)


def printed(config, *arguments):
    out = lab.call([lab.CLI, "policy", "--config", config, *arguments], lab.environment())
    return json.loads(out)


def record(folder):
    """Runs days and connection tests; every request that was made."""
    buckets = folder / "s3"
    for name in ("dayport-staging", "dayport-state", *(f"{name}-bucket" for name in CASES)):
        (buckets / name).mkdir(parents=True)
    config = folder / "dayport.toml"
    config.write_text(configuration())
    port = lab.free_port()
    with lab.running([lab.CLI, "local", "--root", buckets, "--port", port], folder / "local.log", lab.environment(), port):
        direct = f"http://127.0.0.1:{port}"
        lab.stage_sample(direct, 400)
        with recorder.recording(direct) as (endpoint, seen):
            lab.run_day(endpoint, config)
            # A day that is run again without one of its tables: `permutive` deletes what it no longer has.
            shutil.rmtree(buckets / f"dayport-staging/events/{lab.DATE}/aliases")
            lab.run_day(endpoint, config, "--force")
            for name in CASES:
                lab.call([lab.CLI, "check", name, "--config", config], lab.environment(endpoint))
    return config, seen


class Policies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lab.refuse_missing(lab.CLI)
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.config, cls.seen = record(folder)
        cls.identity = rights.role_policies(parameters())
        cls.policies = {name: printed(cls.config, name) for name in CASES}
        OUT.mkdir(parents=True, exist_ok=True)
        table = sorted({(request.bucket, request.operation) for request in cls.seen})
        (OUT / "requests.json").write_text(json.dumps(table, indent=1))

    def settle(self, questions):
        """Evaluates; every request must come to what was expected, and by no context that the evaluator left out."""
        answers = questions.answers()
        self.assertEqual(len(answers), len(questions.asked))
        self.assertGreater(len(answers), 0)
        for asked, (expected, what), answer in zip(questions.asked, questions.expected, answers, strict=True):
            told = f"{what}: {asked['action']} on {asked['resource']} by {asked['principal']} ({asked['context']}) is {answer}"
            self.assertIsNone(answer["errors"], told)
            self.assertEqual(answer["result"] == "Allowed", expected == "Allowed", told)
            if expected == "Allowed":
                self.assertEqual(answer["ignored"], [], told)
        return len(answers)

    def of_bucket(self, name):
        requests = [request for request in self.seen if request.bucket == f"{name}-bucket"]
        self.assertGreater(len(requests), 5, name)
        return requests

    def distinct_needs(self, requests):
        needs = [need for request in requests for need in rights.needs(request)]
        return list({json.dumps(need, sort_keys=True): need for need in needs}.values())

    def test_the_recorded_runs_did_all_that_a_run_does(self):
        def operations(name):
            return {request.operation for request in self.of_bucket(name)}

        uploads = {"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload"}
        self.assertEqual(operations("permutive"), uploads | {"PutObject", "DeleteObject"})
        # The connection test tries to take its probe away; a run of this layout deletes nothing.
        self.assertEqual(operations("pontoon"), uploads | {"PutObject", "DeleteObject"})
        deleted = {request.key for request in self.of_bucket("pontoon") if request.operation == "DeleteObject"}
        self.assertEqual(deleted, {"exports/_dayport/check.txt"})
        deleted = {request.key for request in self.of_bucket("permutive") if request.operation == "DeleteObject"}
        self.assertTrue(any("/aliases/" in key for key in deleted), deleted)
        acl = {request.operation for request in self.of_bucket("permutive-acl") if request.header("x-amz-acl")}
        self.assertEqual(acl, {"CreateMultipartUpload", "PutObject"})
        self.assertEqual(operations("permutive-verify") - operations("permutive"), {"GetObject", "ListObjectsV2"})
        self.assertEqual(operations("permutive-sweep") - operations("permutive"), {"ListMultipartUploads"})

    def test_every_request_of_a_run_is_allowed_across_accounts(self):
        questions = Questions()
        for name, options in CASES.items():
            # The connection test asks for more than a run on purpose, and copes with a refusal.
            requests = [request for request in self.of_bucket(name) if not self.is_only_a_question(request, options)]
            for need in self.distinct_needs(requests):
                questions.ask("Allowed", name, need, identity=self.identity, policy=self.policies[name])
        print(f"{self.settle(questions)} kinds of request allowed", file=sys.stderr)

    @staticmethod
    def is_only_a_question(request, options):
        is_probe = request.key.endswith("_dayport/check.txt")
        return is_probe and (
            (request.operation == "DeleteObject" and options.get("layout") == "pontoon")
            or request.header("x-amz-acl") == "private")

    def test_either_side_alone_is_not_enough(self):
        questions = Questions()
        for need in self.distinct_needs(self.of_bucket("permutive")):
            questions.ask("Denied", "without the bucket policy", need, identity=self.identity)
            questions.ask("Denied", "without the role policy", need, policy=self.policies["permutive"])
        self.settle(questions)

    def test_every_action_of_the_bucket_policy_is_needed(self):
        """Without any one action, some request of the runs is refused: nothing is asked for in vain."""
        for name in CASES:
            for statement in self.policies[name]["Statement"]:
                for action in statement["Action"]:
                    policy = json.loads(json.dumps(self.policies[name]))
                    for other in policy["Statement"]:
                        other["Action"] = [kept for kept in other["Action"] if kept != action]
                    policy["Statement"] = [kept for kept in policy["Statement"] if kept["Action"]]
                    questions = Questions()
                    for need in self.distinct_needs(self.of_bucket(name)):
                        questions.ask("", name, need, identity=self.identity, policy=policy)
                    results = {answer["result"] for answer in questions.answers()}
                    self.assertNotEqual(results, {"Allowed"}, f"{name} works without {action}")

    def test_our_own_side_is_allowed_what_runs_do_and_nothing_around_it(self):
        questions = Questions()
        own = {"account": VENDOR, "identity": self.identity}
        for bucket in ("dayport-staging", "dayport-state"):
            requests = [request for request in self.seen if request.bucket == bucket]
            self.assertGreater(len(requests), 3, bucket)
            for need in self.distinct_needs(requests):
                questions.ask("Allowed", bucket, need, **own)
        tls = {"aws:SecureTransport": "true"}
        for action, resource, context in [
            ("s3:PutObject", "arn:aws:s3:::dayport-staging/events/2026-01-15/a.json", tls),
            ("s3:DeleteObject", "arn:aws:s3:::dayport-staging/events/2026-01-15/a.json", tls),
            ("s3:GetObject", "arn:aws:s3:::dayport-staging/other/a.json", tls),
            ("s3:ListBucket", "arn:aws:s3:::dayport-staging", tls),
            ("s3:ListBucket", "arn:aws:s3:::dayport-staging", {**tls, "s3:prefix": "other/"}),
            ("s3:DeleteObject", "arn:aws:s3:::dayport-state/dayport/heads/x.json", tls),
            ("s3:PutObject", "arn:aws:s3:::dayport-state/other", tls),
            ("s3:PutObject", "arn:aws:s3:::dayport-state/dayport.toml", tls),
            ("s3:ListBucket", "arn:aws:s3:::dayport-state", {**tls, "s3:prefix": ""}),
            ("s3:GetObject", "arn:aws:s3:::another-bucket/dayport/x", tls),
            ("sts:AssumeRole", f"arn:aws:iam::{CUSTOMER}:role/any", {}),
            ("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:eu-central-1:{VENDOR}:secret:any-AbCdEf", {}),
        ]:
            questions.ask("Denied", "our own side", (action, resource, context), **own)
        self.settle(questions)

    def test_what_no_run_does_is_denied(self):
        questions = Questions()
        tls = {"aws:SecureTransport": "true"}
        for name, options in CASES.items():
            policy, prefix, bucket = self.policies[name], prefix_of(name), f"arn:aws:s3:::{name}-bucket"
            inside = f"{bucket}/{prefix}data/x"

            def deny(what, action, resource, context=tls, policy=policy, **other):
                # In a request's resource the evaluator takes `*` for "any", so it can't be asked about keys with a star.
                if "*" in resource:
                    return
                arguments = {"identity": self.identity, "policy": policy, **other}
                questions.ask("Denied", f"{name}, {what}", (action, resource, context), **arguments)

            for action in ("s3:PutObject", "s3:AbortMultipartUpload"):
                deny("plain HTTP", action, inside, {"aws:SecureTransport": "false"})
                deny("another role of ours", action, inside, principal=f"arn:aws:iam::{VENDOR}:role/other")
                deny("our account itself", action, inside, principal=f"arn:aws:iam::{VENDOR}:user/admin")
                deny("a third account", action, inside, principal="arn:aws:iam::222233334444:role/dayport")
                deny("another bucket", action, "arn:aws:s3:::not-a-customers/exports/x", policy=None)
                if prefix:
                    deny("beside the prefix", action, f"{bucket}/data/x")
                    deny("a longer folder's name", action, f"{bucket}/{prefix[:-1]}2/x")
                    deny("the folder's own name", action, f"{bucket}/{prefix[:-1]}")
            for action in ("s3:PutObjectTagging", "s3:GetObjectAcl", "s3:DeleteObjectVersion", "s3:PutObjectRetention",
                           "s3:BypassGovernanceRetention", "s3:RestoreObject", "s3:GetObjectVersion"):
                deny("not granted", action, inside)
            for action in ("s3:PutBucketPolicy", "s3:GetBucketPolicy", "s3:DeleteBucket", "s3:PutLifecycleConfiguration",
                           "s3:ListBucketVersions"):
                deny("not granted", action, bucket)
            deny("list without prefix", "s3:ListBucket", bucket)
            deny("list another prefix", "s3:ListBucket", bucket, {**tls, "s3:prefix": "other/"})
            if "verify" in options:
                deny("get beside the prefix", "s3:GetObject", f"{bucket}/other/x")
                deny("get over plain HTTP", "s3:GetObject", inside, {"aws:SecureTransport": "false"})
            else:
                deny("get", "s3:GetObject", inside)
                deny("list", "s3:ListBucket", bucket, {**tls, "s3:prefix": prefix})
            if "sweep" not in options:
                deny("uploads of others", "s3:ListBucketMultipartUploads", bucket)
            if options.get("layout") == "pontoon":
                deny("append-only", "s3:DeleteObject", inside)
            if "acl" not in options:
                deny("no ACL", "s3:PutObjectAcl", inside)
        # Wildcards and variables of a prefix are letters.
        for name, key in (("permutive-odd", "50% offANY/a b/x"), ("pontoon-odd", "aXb$c/x/y"), ("pontoon-odd", "a?b/x/y")):
            need = ("s3:PutObject", f"arn:aws:s3:::{name}-bucket/{key}", tls)
            questions.ask("Denied", "a wildcard", need, identity=self.identity, policy=self.policies[name])
        print(f"{self.settle(questions)} forbidden requests denied", file=sys.stderr)

    def test_wildcards_in_a_prefix_are_letters_in_every_options_statement(self):
        golden = (ROOT / "tests/golden/policies.txt").read_text()
        section = golden.partition("=== every option, a prefix")[2].partition("=== ")[0]
        policy = json.loads(section[section.index("{"):])
        objects, bucket = "arn:aws:s3:::acme-events/exports/50% off${*}/*", "arn:aws:s3:::acme-events"
        identity = rights.role_policies({
            **parameters(), "DestinationObjects": [objects], "DeletableObjects": [objects], "AclObjects": [objects],
            "VerifyObjects": [objects], "VerifyBuckets": [bucket], "VerifyPrefixes": ["exports/50% off${*}/*"], "SweepBuckets": [bucket]})
        questions, tls, both = Questions(), {"aws:SecureTransport": "true"}, {"identity": identity, "policy": policy}
        prefix = "exports/50% off*/"
        for action, resource, context in [
            ("s3:GetObject", f"{bucket}/{prefix}data/x", tls),
            ("s3:ListBucket", bucket, {**tls, "s3:prefix": f"{prefix}data/"}),
            ("s3:ListBucketMultipartUploads", bucket, tls),
        ]:
            questions.ask("Allowed", "every option", (action, resource, context), **both)
        for action, resource, context in [
            ("s3:GetObject", f"{bucket}/other/x", tls),
            ("s3:GetObject", f"{bucket}/exports/50% offX/data/x", tls),
            ("s3:GetObject", f"{bucket}/{prefix}data/x", {"aws:SecureTransport": "false"}),
            ("s3:ListBucket", bucket, tls),
            ("s3:ListBucket", bucket, {**tls, "s3:prefix": ""}),
            ("s3:ListBucket", bucket, {**tls, "s3:prefix": "exports/"}),
            ("s3:ListBucket", bucket, {**tls, "s3:prefix": "exports/50% offX/"}),
        ]:
            questions.ask("Denied", "every option", (action, resource, context), **both)
        self.settle(questions)

    def test_the_key_lets_us_do_what_uploads_need_through_s3_alone(self):
        owner = {"Version": "2012-10-17", "Statement": [{
            "Sid": "Owner", "Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{CUSTOMER}:root"}, "Action": "kms:*", "Resource": "*"}]}
        questions = Questions()
        for name in ("permutive-kms", "pontoon-kms"):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(owner, file)
                file.flush()
                policy = printed(self.config, name, "--kms", "--merge", file.name)
            self.assertEqual(policy["Statement"][0], owner["Statement"][0])
            requests = self.of_bucket(name)
            needs = rights.key_needs(requests, KEY)
            self.assertEqual([action for action, _, _ in needs], ["kms:GenerateDataKey", "kms:Decrypt"])
            both = {"identity": self.identity, "policy": policy}
            for need in needs:
                action, key, context = need
                questions.ask("Allowed", name, need, **both)
                questions.ask("Denied", "without the statement", need, identity=self.identity, policy=owner)
                questions.ask("Denied", "not through S3", (action, key, {}), **both)
                questions.ask("Denied", "through another service", (action, key, {"kms:ViaService": "sqs.eu-central-1.amazonaws.com"}), **both)
                questions.ask("Denied", "another role", need, principal=f"arn:aws:iam::{VENDOR}:role/other", **both)
                questions.ask("Denied", "another key", (action, KEY[:-1] + "0", context), **both)
            for action in ("kms:Encrypt", "kms:CreateGrant", "kms:ScheduleKeyDeletion", "kms:PutKeyPolicy"):
                questions.ask("Denied", name, (action, KEY, needs[0][2]), **both)
        self.settle(questions)

    def test_a_role_of_the_customers_is_assumed_with_its_external_id_alone_and_needs_no_bucket_policy(self):
        theirs = f"arn:aws:iam::{CUSTOMER}:role/exports/writer"
        text = configuration().replace('name = "permutive"\n', f'name = "permutive"\nrole_arn = "{theirs}"\nexternal_id = "dayport-acme-7"\n')
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            trust, policy = printed(file.name, "permutive", "--trust"), printed(file.name, "permutive")
        identity = rights.role_policies({**parameters(), "AssumableRoleArns": [theirs]})
        questions = Questions()
        both = {"identity": identity, "policy": trust}
        need = ("sts:AssumeRole", theirs, {"sts:ExternalId": "dayport-acme-7"})
        questions.ask("Allowed", "trust", need, **both)
        questions.ask("Denied", "another external id", ("sts:AssumeRole", theirs, {"sts:ExternalId": "other"}), **both)
        questions.ask("Denied", "no external id", ("sts:AssumeRole", theirs, {}), **both)
        questions.ask("Denied", "another role of ours", need, principal=f"arn:aws:iam::{VENDOR}:role/other", **both)
        questions.ask("Denied", "not on our side", need, identity=self.identity, policy=trust)
        for need in self.distinct_needs(self.of_bucket("permutive")):
            if need[2].get("s3:x-amz-acl") != "private":
                questions.ask("Allowed", "their role", need, principal=theirs, identity=[policy])
                action, resource, context = need
                plain = (action, resource, {**context, "aws:SecureTransport": "false"})
                questions.ask("Denied", "plain HTTP", plain, principal=theirs, identity=[policy])
        self.settle(questions)

    def test_the_deny_of_the_guide_spares_parts_and_its_other_forms_do_not(self):
        guide = (ROOT / "docs/onboarding.md").read_text()
        deny = next(json.loads(block) for block in re.findall(r"```json\n(.*?)```", guide, re.S) if '"Deny"' in block)
        self.assertEqual(deny["Condition"]["StringNotEquals"]["s3:x-amz-server-side-encryption-aws-kms-key-id"], KEY)
        deny["Resource"] = "arn:aws:s3:::permutive-kms-bucket/exports/*"
        bare = {**deny, "Condition": {"StringNotEquals": deny["Condition"]["StringNotEquals"]}}
        if_exists = {**deny, "Condition": {"StringNotEqualsIfExists": deny["Condition"]["StringNotEquals"]}}

        def with_deny(statement):
            policy = self.policies["permutive-kms"]
            return {**policy, "Statement": [*policy["Statement"], statement]}

        questions = Questions()
        requests = [request for request in self.of_bucket("permutive-kms") if request.header("x-amz-acl") != "private"]
        for need in self.distinct_needs(requests):
            questions.ask("Allowed", "the guide's form", need, identity=self.identity, policy=with_deny(deny))
        parts = self.distinct_needs([request for request in requests if request.operation == "UploadPart"])
        for need in parts:
            for form in (bare, if_exists):
                questions.ask("Denied", "a form that parts meet", need, identity=self.identity, policy=with_deny(form))
        other = {"aws:SecureTransport": "true", "s3:x-amz-server-side-encryption": "aws:kms",
                 "s3:x-amz-server-side-encryption-aws-kms-key-id": KEY[:-1] + "0"}
        need = ("s3:PutObject", "arn:aws:s3:::permutive-kms-bucket/exports/x", other)
        questions.ask("Denied", "another key", need, identity=self.identity, policy=with_deny(deny))
        self.settle(questions)


if __name__ == "__main__":
    unittest.main(verbosity=2)
