"""What a request needs in IAM's words, and what `template.yaml` gives the function's role."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/template"))

from test_template import TEMPLATE  # noqa: E402

VENDOR, CUSTOMER = "999988887777", "111122223333"
ROLE = f"arn:aws:iam::{VENDOR}:role/dayport"

# Service Authorization Reference, "Actions defined by Amazon S3".
ACTIONS = {
    "ListObjectsV2": "s3:ListBucket",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "DeleteObject": "s3:DeleteObject",
}
# Headers that a policy can ask about.
KEYS = ("x-amz-acl", "x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id")


def needs(request):
    """The actions that a captured request needs: (action, resource, context)."""
    context = {"aws:SecureTransport": "true"}
    context.update({f"s3:{name}": request.header(name) for name in KEYS if request.header(name)})
    bucket = f"arn:aws:s3:::{request.bucket}"
    if request.operation.startswith("List"):
        # `s3:prefix` is a condition of ListBucket alone.
        if request.operation == "ListObjectsV2" and request.argument("prefix") is not None:
            context["s3:prefix"] = request.argument("prefix")
        return [(ACTIONS[request.operation], bucket, context)]
    resource = f"{bucket}/{request.key}"
    found = [(ACTIONS[request.operation], resource, context)]
    if request.header("x-amz-acl"):
        found.append(("s3:PutObjectAcl", resource, context))
    return found


def key_needs(requests, key):
    """What S3 asks of KMS for such requests under `key`, in their signer's name (S3 User Guide, "Uploading … using multipart upload with SSE-KMS")."""
    context = {"kms:ViaService": f"s3.{key.split(':')[3]}.amazonaws.com"}
    begun = {request.argument("uploadId") for request in requests}
    found = []
    if any(request.header("x-amz-server-side-encryption-aws-kms-key-id") == key for request in requests):
        found.append(("kms:GenerateDataKey", key, context))
    if begun - {None}:
        found.append(("kms:Decrypt", key, context))
    return found


def role_policies(parameters):
    """The role's policies as CloudFormation would write them under these parameters."""
    role = TEMPLATE["Resources"]["Role"]["Properties"]
    values = {name: parameter.get("Default") for name, parameter in TEMPLATE["Parameters"].items()}
    values.update({"AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": VENDOR})
    for name, value in parameters.items():
        # What CloudFormation would refuse is no way to set the stack up.
        for element in value if isinstance(value, list) else [value]:
            assert re.search(TEMPLATE["Parameters"][name].get("AllowedPattern", ""), element), (name, element)
            assert not isinstance(value, list) or "," not in element, (name, element)
        values[name] = value
    return [resolve(policy["PolicyDocument"], values) for policy in role["Policies"]]


GONE = object()


def as_list(value):
    return value if isinstance(value, list) else [part for part in value.split(",") if part]


def resolve(node, values):
    if isinstance(node, list):
        return [found for found in (resolve(part, values) for part in node) if found is not GONE]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        (name, argument), = node.items()
        if name == "Ref":
            return reference(argument, values)
        if name == "Fn::GetAtt":
            return f"arn:aws:logs:eu-central-1:{VENDOR}:log-group:{argument}" if argument == "Log.Arn" else f"arn:aws:sqs:eu-central-1:{VENDOR}:{argument.split('.')[0]}"
        if name == "Fn::Sub":
            text, more = argument if isinstance(argument, list) else (argument, {})
            inner = {**values, **{key: resolve(value, values) for key, value in more.items()}}
            return re.sub(r"\$\{([^!}]+)\}", lambda match: inner[match[1]], text)
        if name == "Fn::If":
            condition, yes, no = argument
            return resolve(yes if holds(TEMPLATE["Conditions"][condition], values) else no, values)
        if name == "Fn::Join":
            return argument[0].join(resolve(argument[1], values))
    return {name: value for name, value in ((name, resolve(value, values)) for name, value in node.items()) if value is not GONE}


def reference(name, values):
    if name == "AWS::NoValue":
        return GONE
    if TEMPLATE["Parameters"].get(name, {}).get("Type") == "CommaDelimitedList":
        return as_list(values[name])
    return values[name]


def holds(condition, values):
    (name, argument), = condition.items()
    if name == "Fn::Not":
        return not holds(argument[0], values)
    one, other = (resolve(side, values) for side in argument)
    return one == other
