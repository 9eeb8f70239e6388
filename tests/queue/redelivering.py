"""A proxy before an SQS API that delivers one message in ten once more, as standard queues may: at once, later, or after its deletion."""

import contextlib
import hashlib
import http.client
import http.server
import json
import threading

MOST = 10  # messages that an answer may hold


def is_chosen(message):
    return int(hashlib.sha256(message["MessageId"].encode()).hexdigest(), 16) % 10 == 0


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream_port):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream_port = upstream_port
        self.lock = threading.Lock()
        self.waiting, self.chosen, self.redelivered = [], set(), 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def redeliver(self, answer):
        """Puts messages that were delivered before into an answer that has room, and keeps copies of new ones for later."""
        messages = answer.get("Messages") or []
        with self.lock:
            new = [message for message in messages if is_chosen(message) and message["MessageId"] not in self.chosen]
            room = MOST - len(messages)
            # Some come at once, all others when the queue has little else to give.
            again, self.waiting = self.waiting[:room], self.waiting[room:]
            self.redelivered += len(again)
            self.chosen.update(message["MessageId"] for message in new)
            self.waiting.extend(new)
        if messages or again:
            answer["Messages"] = messages + again
        return answer


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "expect")}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=60)
        try:
            upstream.request("POST", self.path, body, headers)
            response = upstream.getresponse()
            answer, status, kind = response.read(), response.status, response.headers.get("Content-Type", "")
        finally:
            upstream.close()
        if status == 200 and self.headers.get("X-Amz-Target") == "AmazonSQS.ReceiveMessage":
            answer = json.dumps(self.server.redeliver(json.loads(answer or b"{}"))).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def redelivering(upstream_port):
    proxy = Proxy(upstream_port)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
