"""What the linters don't know about `template.yaml`: its rights are narrow, its role outlives it, its triggers say the time."""

import json
import pathlib
import re
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms: `!Ref X` as `{"Ref": "X"}`, `!Sub …` as `{"Fn::Sub": …}`."""


def short_form(loader, tag, node):
    kinds = {yaml.ScalarNode: loader.construct_scalar, yaml.SequenceNode: loader.construct_sequence}
    value = kinds.get(type(node), loader.construct_mapping)(node, *([] if type(node) is yaml.ScalarNode else [True]))
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


Loader.add_multi_constructor("!", short_form)
TEMPLATE = yaml.load((ROOT / "template.yaml").read_text(), Loader)
RESOURCES = TEMPLATE["Resources"]


def as_list(value):
    return value if isinstance(value, list) else [value]


def statements(*roles):
    """The roles' statements, those that stand under a condition too; of both functions unless told."""
    for role in roles or ("Role", "IntakeRole"):
        for policy in RESOURCES[role]["Properties"]["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                yield statement["Fn::If"][1] if "Fn::If" in statement else statement


class Template(unittest.TestCase):
    def test_the_role_has_no_wildcard_action_and_no_wildcard_resource(self):
        found = list(statements())
        self.assertGreater(len(found), 10)
        for statement in found:
            for action in as_list(statement["Action"]):
                self.assertRegex(action, r"^[a-z0-9]+:[A-Za-z]+$")
            for resource in as_list(statement["Resource"]):
                # A parameter's list, a resource of the stack, or an S3 ARN whose bucket is a parameter.
                text = json.dumps(resource)
                self.assertTrue("Ref" in resource or "Fn::GetAtt" in resource or "Fn::Sub" in resource, text)
                self.assertNotIn(":::*", text)

    def test_there_is_no_right_beside_the_role_that_customers_know(self):
        """A function's own `Policies`, or another role, would stand outside what the tests of policies evaluate. The intake of the
        staging queue has a role of its own, which may do nothing at any customer's."""
        roles = {"Function": "Role", "Intake": "IntakeRole"}
        for name, resource in RESOURCES.items():
            properties = resource.get("Properties", {})
            if resource["Type"] == "AWS::Serverless::Function":
                self.assertEqual(properties["Role"], {"Fn::GetAtt": f"{roles[name]}.Arn"}, name)
                self.assertNotIn("Policies", properties, name)
            if resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
                self.assertIn(name, roles.values())
        for role in roles.values():
            self.assertNotIn("ManagedPolicyArns", RESOURCES[role]["Properties"])
        intake = str(RESOURCES["IntakeRole"])
        for of_customers in ("DestinationObjects", "DeletableObjects", "AclObjects", "VerifyObjects", "SweepBuckets", "AssumableRoleArns"):
            self.assertNotIn(of_customers, intake)

    def test_what_the_skips_of_checkov_say_is_so(self):
        queues = [name for name, resource in RESOURCES.items() if resource["Type"] == "AWS::SQS::Queue"]
        self.assertGreater(len(queues), 1)
        for name in queues:
            self.assertIs(RESOURCES[name]["Properties"]["SqsManagedSseEnabled"], True, name)
        for name, resource in RESOURCES.items():
            if resource["Type"] == "AWS::Serverless::Function":
                for variable in resource["Properties"]["Environment"]["Variables"]:
                    self.assertRegex(variable, "^DAYPORT_", name)
                    self.assertNotRegex(variable, "SECRET|KEY|TOKEN|PASSWORD", name)

    def test_listing_is_always_limited_to_a_prefix(self):
        for statement in statements():
            if "s3:ListBucket" in as_list(statement["Action"]):
                self.assertIn("s3:prefix", statement["Condition"]["StringLike"], statement["Sid"])

    def test_the_role_has_a_fixed_name_and_outlives_the_stack_as_the_state_does(self):
        self.assertEqual(RESOURCES["Role"]["Properties"]["RoleName"], {"Ref": "RoleName"})
        self.assertEqual(TEMPLATE["Outputs"]["RoleArn"]["Value"], {"Fn::GetAtt": "Role.Arn"})
        for name in ("Role", "StateBucket"):
            self.assertEqual(RESOURCES[name]["DeletionPolicy"], "Retain", name)
            self.assertEqual(RESOURCES[name]["UpdateReplacePolicy"], "Retain", name)
        self.assertEqual(RESOURCES["StateBucket"]["Properties"]["VersioningConfiguration"]["Status"], "Enabled")

    def test_of_the_state_only_what_nobody_reads_again_expires(self):
        rules = RESOURCES["StateBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
        expiring = {rule["Id"]: rule for rule in rules if "ExpirationInDays" in rule}
        self.assertEqual(list(expiring), ["ids-of-ended-runs"])
        # `StatePaths::ids`; a run whose uploads are older than seven days is never taken up.
        self.assertEqual(expiring["ids-of-ended-runs"]["Prefix"], {"Fn::Sub": "${StatePrefix}dedupe/"})
        self.assertGreater(expiring["ids-of-ended-runs"]["ExpirationInDays"], 7)

    def test_the_schedule_hands_over_the_time_in_the_form_of_the_event_file(self):
        schedule = RESOURCES["Function"]["Properties"]["Events"]["Daily"]["Properties"]
        placed = schedule["Input"].replace("<aws.scheduler.scheduled-time>", "2026-01-16T03:00:00Z")
        self.assertEqual(json.loads(placed), json.loads((ROOT / "events/scheduler.json").read_text()))
        self.assertIn("DeadLetterConfig", schedule)
        self.assertIn("OnFailure", RESOURCES["Function"]["Properties"]["EventInvokeConfig"]["DestinationConfig"])

    def test_a_message_of_the_work_queue_is_one_run_that_outlasts_its_invocation_and_a_late_marker(self):
        function, queue = RESOURCES["Function"]["Properties"], RESOURCES["WorkQueue"]["Properties"]
        mapping = function["Events"]["Work"]["Properties"]
        self.assertEqual(mapping["Queue"], {"Fn::GetAtt": "WorkQueue.Arn"})
        self.assertEqual((mapping["BatchSize"], mapping["FunctionResponseTypes"]), (1, ["ReportBatchItemFailures"]))
        # Lambda Developer Guide, "Creating and configuring an Amazon SQS event source mapping".
        self.assertEqual(queue["VisibilityTimeout"], 6 * function["Timeout"])
        self.assertNotIn("FifoQueue", queue)
        # The function's delays: 1, 2, 4, 8 and then 15 minutes.
        receives = queue["RedrivePolicy"]["maxReceiveCount"]
        minutes = sum(min(15, 2 ** receive) for receive in range(receives - 1))
        self.assertGreaterEqual(minutes, 24 * 60)
        self.assertGreater(queue["MessageRetentionPeriod"], 60 * minutes)

    def test_every_queue_of_failures_has_its_alarm_and_work_that_failed_for_good_has_one(self):
        self.assertEqual(RESOURCES["WorkQueue"]["Properties"]["RedrivePolicy"]["deadLetterTargetArn"],
                         {"Fn::GetAtt": "WorkDeadLetters.Arn"})
        watched = {dimension["Value"]["Fn::GetAtt"].removesuffix(".QueueName")
                   for resource in RESOURCES.values() if resource["Type"] == "AWS::CloudWatch::Alarm"
                   for dimension in resource["Properties"].get("Dimensions", []) if dimension["Name"] == "QueueName"}
        self.assertLessEqual({"WorkDeadLetters", "FailedInvocations", "UndeliveredTriggers"}, watched)
        sending = {resource["Fn::GetAtt"] for statement in statements() if "sqs:SendMessage" in as_list(statement["Action"])
                   for resource in as_list(statement["Resource"])}
        self.assertLessEqual({"WorkQueue.Arn", "WorkDeadLetters.Arn"}, sending)

    def test_the_staging_queue_holds_a_message_six_times_as_long_as_its_function_may_take(self):
        function, queue = RESOURCES["Intake"]["Properties"], RESOURCES["StagingMessages"]["Properties"]
        self.assertEqual(queue["VisibilityTimeout"], 6 * function["Timeout"])
        self.assertEqual(queue["RedrivePolicy"]["deadLetterTargetArn"], {"Fn::GetAtt": "StagingDeadLetters.Arn"})
        self.assertGreaterEqual(queue["RedrivePolicy"]["maxReceiveCount"], 5)
        self.assertEqual(queue["MessageRetentionPeriod"], 14 * 86400)

    def test_the_second_function_is_the_first_ones_code_and_answers_for_each_message(self):
        function, intake = (RESOURCES[name] for name in ("Function", "Intake"))
        self.assertEqual(intake["Metadata"], function["Metadata"])
        for name in ("CodeUri", "Handler", "Runtime", "Architectures", "MemorySize", "Environment"):
            self.assertEqual(intake["Properties"][name], function["Properties"][name], name)
        (trigger,) = intake["Properties"]["Events"].values()
        self.assertEqual(trigger["Type"], "SQS")
        self.assertEqual(trigger["Properties"]["Queue"], {"Fn::GetAtt": "StagingMessages.Arn"})
        self.assertEqual(trigger["Properties"]["FunctionResponseTypes"], ["ReportBatchItemFailures"])
        self.assertEqual(trigger["Properties"]["ScalingConfig"]["MaximumConcurrency"], {"Ref": "IntakeConcurrency"})
        self.assertGreaterEqual(TEMPLATE["Parameters"]["IntakeConcurrency"]["MinValue"], 2)

    def test_the_queue_and_its_function_are_there_only_if_they_are_asked_for(self):
        self.assertEqual(TEMPLATE["Parameters"]["StagingQueue"]["Default"], "none")
        conditions = TEMPLATE["Conditions"]
        self.assertEqual(conditions["IsTriggered"], {"Fn::Equals": [{"Ref": "StagingQueue"}, "trigger"]})
        for name in ("Intake", "IntakeRole"):
            self.assertEqual(RESOURCES[name]["Condition"], "IsTriggered", name)
        for name in ("StagingMessages", "StagingDeadLetters", "StagingMessagesPolicy", "StagingDeadLettersAlarm"):
            self.assertEqual(RESOURCES[name]["Condition"], "HasStagingQueue", name)

    def test_the_second_function_may_touch_its_queue_and_the_spool_and_nothing_else(self):
        writes = {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}
        found = list(statements("IntakeRole"))
        actions = {action for statement in found for action in as_list(statement["Action"])}
        self.assertEqual(actions, {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "s3:ListBucket",
                                   "s3:GetObject", "s3:PutObject", "logs:CreateLogStream", "logs:PutLogEvents"})
        for statement in found:
            if writes & set(as_list(statement["Action"])):
                self.assertTrue(statement["Resource"]["Fn::Sub"].endswith("/${StatePrefix}spool/*"), statement["Sid"])
        self.assertNotIn("Destination", json.dumps(found))

    def test_only_the_vendors_own_staging_bucket_may_notify_the_queue(self):
        allowed = [statement for statement in RESOURCES["StagingMessagesPolicy"]["Properties"]["PolicyDocument"]["Statement"]
                   if statement["Effect"] == "Allow"]
        self.assertEqual(len(allowed), 1)
        self.assertEqual(allowed[0]["Condition"]["StringEquals"], {"aws:SourceAccount": {"Ref": "AWS::AccountId"}})
        self.assertIn("${StagingBucket}", allowed[0]["Condition"]["ArnEquals"]["aws:SourceArn"]["Fn::Sub"])

    def test_every_parameter_is_used_and_the_readme_names_no_other(self):
        text = (ROOT / "template.yaml").read_text().partition("\nConditions:")[2]
        for name in TEMPLATE["Parameters"]:
            self.assertRegex(text, rf"\b{name}\b")
        readme = (ROOT / "README.md").read_text()
        for output in re.findall(r"output `(\w+)`", readme):
            self.assertIn(output, TEMPLATE["Outputs"])
        for parameter in re.findall(r"`(Alarm\w+)`", readme):
            self.assertIn(parameter, TEMPLATE["Parameters"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
