"""moto's server, made quick enough for a hundred thousand messages: it looks through all of them for each one that is sent, received, deleted
or held longer, and through its own folder at each request. Its API and what it answers stay as they are.
"""

import collections.abc
import sys
import time

from moto import backends
from moto.server import main
from moto.sqs import models
from moto.sqs.exceptions import ReceiptHandleIsInvalid

by_receipt = {}
begin = models.Queue.__init__
mark_received = models.Message.mark_received
change_message_visibility = models.SQSBackend.change_message_visibility


class Messages(dict):
    """A queue's messages in their order, each found at once."""

    def append(self, message):
        self[message] = None

    def remove(self, message):
        del self[message]


class Visible:
    """Those that can be received, looked at only as far as somebody asks."""

    def __init__(self, queue):
        self.queue = queue

    def __iter__(self):
        return (message for message in list(self.queue._messages) if message.visible and not message.delayed)

    def __len__(self):
        return sum(1 for _ in self)

    def __bool__(self):
        return any(True for _ in self)


class Attributes(collections.abc.Mapping):
    """A queue's attributes, each found out when it is asked for: some are counts of all messages."""

    def __init__(self, queue):
        self.queue = queue

    def __iter__(self):
        queue = self.queue
        yield from queue.BASE_ATTRIBUTES
        yield from queue.FIFO_ATTRIBUTES if queue.fifo_queue else ()
        yield from queue.KMS_ATTRIBUTES if queue.kms_master_key_id else ()

    def __len__(self):
        return sum(1 for _ in self)

    def __getitem__(self, name):
        if name not in list(self):
            raise KeyError(name)
        value = getattr(self.queue, models.camelcase_to_underscores(name))
        if name == "RedrivePolicy" and value:
            return models.json.dumps(value)
        return str(value).lower() if isinstance(value, bool) else value


def begun(self, *arguments, **named):
    begin(self, *arguments, **named)
    self._messages = Messages()


def received(self, *arguments, **named):
    mark_received(self, *arguments, **named)
    by_receipt[self.receipt_handle] = self


def delete(self, receipt_handle):
    if receipt_handle in self.deleted_messages:
        return
    message = by_receipt.get(receipt_handle)
    if message is None:
        raise ReceiptHandleIsInvalid()
    self.pending_messages.discard(message)
    self.deleted_messages.update(message.all_receipt_handles)
    self._messages.pop(message, None)


class One:
    """A queue as it is asked about one message."""

    def __init__(self, queue, message):
        self._messages, self.pending_messages = [message] if message else [], queue.pending_messages


def change_visibility(self, queue_name, receipt_handle, visibility_timeout):
    queue, message = self.get_queue(queue_name), by_receipt.get(receipt_handle)
    is_there = message is not None and receipt_handle not in queue.deleted_messages

    class Backend:
        def get_queue(self, _):
            return One(queue, message if is_there else None)

    return change_message_visibility(Backend(), queue_name, receipt_handle, visibility_timeout)


def is_kept(self, queue_name, message):
    return self.get_queue(queue_name).message_retention_period + message.sent_timestamp / 1000 > time.time()


modules = list(backends.list_of_moto_modules())
backends.list_of_moto_modules = lambda: modules
models.SQSBackend.is_message_valid_based_on_retention_period = is_kept
models.Queue.__init__ = begun
models.Queue.messages = property(Visible)
models.Queue.attributes = property(Attributes)
models.Message.mark_received = received
models.Queue.delete_message = delete
models.SQSBackend.change_message_visibility = change_visibility

if __name__ == "__main__":
    sys.exit(main())
