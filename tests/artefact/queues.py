"""SQS as moto makes it, and Lambda's event source mapping, as much of it as hands a queue's messages to one function."""

import contextlib
import json
import sys

import boto3

import lab

REGION = "us-east-1"
# What moto calls every account.
ACCOUNT = "123456789012"


@contextlib.contextmanager
def moto(log):
    """moto's server on a free port; gives a client of its SQS and its endpoint."""
    port = lab.free_port()
    endpoint = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    with lab.running(argv, log, lab.environment(), port, seconds=60):
        client = boto3.client("sqs", endpoint_url=endpoint, region_name=REGION,
                              aws_access_key_id="local", aws_secret_access_key="localsecret")
        yield client, endpoint


class Queue:
    """A queue, and the dead letters beside it."""

    def __init__(self, client, name, visibility=5400, most_receives=100):
        self.client, self.name = client, name
        self.dead_url = client.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
        policy = {"deadLetterTargetArn": self.arn(f"{name}-dead"), "maxReceiveCount": most_receives}
        self.url = client.create_queue(QueueName=name, Attributes={
            "VisibilityTimeout": str(visibility), "RedrivePolicy": json.dumps(policy)})["QueueUrl"]

    def arn(self, name=None):
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name or self.name}"

    def send(self, body):
        self.client.send_message(QueueUrl=self.url, MessageBody=body if isinstance(body, str) else json.dumps(body))

    def receive(self):
        """One message that can be had now, as SQS gives it; or None."""
        answer = self.client.receive_message(QueueUrl=self.url, MaxNumberOfMessages=1, AttributeNames=["All"])
        return next(iter(answer.get("Messages", [])), None)

    def event(self, message):
        """The message as Lambda hands it over."""
        return {"Records": [{
            "messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"], "body": message["Body"],
            "attributes": message["Attributes"], "messageAttributes": {}, "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs", "eventSourceARN": self.arn(), "awsRegion": REGION}]}

    def deliver(self, function, **limits):
        """Hands one message to the function and deletes it unless it is to come back, as an event source mapping does.

        Gives the message and whether it is done with; None if there is none.
        """
        message = self.receive()
        if message is None:
            return None
        outcome = function.invoke(self.event(message), **limits)
        assert outcome.error is None, outcome.error
        assert set(outcome.answer) == {"batchItemFailures"}, outcome.answer
        back = [failure["itemIdentifier"] for failure in outcome.answer["batchItemFailures"]]
        assert back in ([], [message["MessageId"]]), back
        if not back:
            self.client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return message, not back

    def turn_the_clock(self, message):
        """Lets a message come back now that would come back later."""
        self.client.change_message_visibility(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)

    def counts(self):
        """How many messages can be had, and how many are held."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return tuple(int(attributes[name]) for name in names)

    def dead_letters(self):
        """Takes the dead letters out."""
        letters = []
        while messages := self.client.receive_message(QueueUrl=self.dead_url, MaxNumberOfMessages=10).get("Messages", []):
            for message in messages:
                letters.append(json.loads(message["Body"]))
                self.client.delete_message(QueueUrl=self.dead_url, ReceiptHandle=message["ReceiptHandle"])
        return letters
