"""moto's server, made quick enough for ten thousand messages: it looks through all of them for each one that is received, deleted or held
longer, and through its own folder at each request. Its API and what it answers stay as they are.
"""

import sys
import time

from moto import backends
from moto.server import main
from moto.sqs import models
from moto.sqs.exceptions import ReceiptHandleIsInvalid

by_receipt = {}
mark_received = models.Message.mark_received
change_message_visibility = models.SQSBackend.change_message_visibility


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
    if message in self._messages:
        self._messages.remove(message)


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
models.Message.mark_received = received
models.Queue.delete_message = delete
models.SQSBackend.change_message_visibility = change_visibility

if __name__ == "__main__":
    sys.exit(main())
