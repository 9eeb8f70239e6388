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


def statements():
    """The role's statements, those that stand under a condition too."""
    for policy in RESOURCES["Role"]["Properties"]["Policies"]:
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
        """A function's own `Policies`, or a second role, would stand outside what the tests of policies evaluate."""
        for name, resource in RESOURCES.items():
            properties = resource.get("Properties", {})
            if resource["Type"] == "AWS::Serverless::Function":
                self.assertEqual(properties["Role"], {"Fn::GetAtt": "Role.Arn"}, name)
                self.assertNotIn("Policies", properties, name)
            if resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
                self.assertEqual(name, "Role")
        self.assertNotIn("ManagedPolicyArns", RESOURCES["Role"]["Properties"])

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

    def test_the_schedule_hands_over_the_time_in_the_form_of_the_event_file(self):
        schedule = RESOURCES["Function"]["Properties"]["Events"]["Daily"]["Properties"]
        placed = schedule["Input"].replace("<aws.scheduler.scheduled-time>", "2026-01-16T03:00:00Z")
        self.assertEqual(json.loads(placed), json.loads((ROOT / "events/scheduler.json").read_text()))
        self.assertIn("DeadLetterConfig", schedule)
        self.assertIn("OnFailure", RESOURCES["Function"]["Properties"]["EventInvokeConfig"]["DestinationConfig"])

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
