"""Lambda's Runtime API, as much of it as a custom runtime calls, so that the built artefact can be run as Lambda runs it.

Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

import dataclasses
import http.server
import json
import queue
import subprocess
import threading
import time
import uuid

ARN = "arn:aws:lambda:us-east-1:123456789012:function:dayport"
PREFIX = "/2018-06-01/runtime/"


@dataclasses.dataclass
class Outcome:
    """How an invocation ended: `answer` of a response, `error` (`errorType`, `errorMessage`) of a failure."""

    answer: object = None
    error: dict = None
    seconds: float = 0.0


class RuntimeApi:
    """Serves one function; `environment()` tells it where."""

    def __init__(self):
        self._events = queue.Queue()
        self._outcomes = {}
        self.first_next = threading.Event()
        self.first_next_at = None
        self.init_error = None
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                api._next(self)

            def do_POST(self):
                api._post(self)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def environment(self, memory=3008):
        return {
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": "dayport",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory),
            "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/dayport",
            "AWS_LAMBDA_LOG_STREAM_NAME": "artefact",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        }

    def invoke(self, event, process, remaining=900, patience=120):
        """Hands over one event and waits for its outcome; fails if the process dies over it."""
        request = str(uuid.uuid4())
        done = queue.Queue()
        self._outcomes[request] = done
        started = time.monotonic()
        self._events.put((request, int((time.time() + remaining) * 1000), json.dumps(event).encode()))
        while True:
            try:
                outcome = done.get(timeout=0.2)
            except queue.Empty:
                if process.poll() is not None:
                    raise AssertionError(f"the function died with {process.returncode} over {event}") from None
                if time.monotonic() - started > patience:
                    raise AssertionError(f"no outcome of {event} in {patience} s") from None
            else:
                outcome.seconds = time.monotonic() - started
                return outcome

    def wait_until_ready(self, process, patience=20):
        """Waits for the first call of `/next`, which ends the init phase."""
        until = time.monotonic() + patience
        while not self.first_next.wait(0.05):
            assert process.poll() is None, f"the function died with {process.returncode} in its init: {self.init_error}"
            assert time.monotonic() < until, f"no call of /next in {patience} s"
        return self.first_next_at

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def _next(self, handler):
        if handler.path != f"{PREFIX}invocation/next":
            handler.send_error(404)
            return
        if not self.first_next.is_set():
            self.first_next_at = time.monotonic()
            self.first_next.set()
        request, deadline, body = self._events.get()
        handler.send_response(200)
        handler.send_header("Lambda-Runtime-Aws-Request-Id", request)
        handler.send_header("Lambda-Runtime-Deadline-Ms", str(deadline))
        handler.send_header("Lambda-Runtime-Invoked-Function-Arn", ARN)
        handler.send_header("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0")
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _post(self, handler):
        body = self._body(handler)
        path = handler.path.removeprefix(PREFIX)
        if path == "init/error":
            self.init_error = body.decode(errors="replace")
        else:
            _, request, kind = path.split("/")
            said = json.loads(body) if body else None
            outcome = Outcome(answer=said) if kind == "response" else Outcome(error=said)
            self._outcomes.pop(request).put(outcome)
        handler.send_response(202)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    @staticmethod
    def _body(handler):
        if "chunked" not in handler.headers.get("Transfer-Encoding", ""):
            return handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        body = b""
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            body += handler.rfile.read(size)
            handler.rfile.readline()
        while handler.rfile.readline().strip():
            pass
        return body


class Function:
    """The artefact under a Runtime API of its own, stopped with the block."""

    def __init__(self, binary, env, log):
        self.api = RuntimeApi()
        self._binary, self._env, self._log = binary, {**env, **self.api.environment()}, log
        self.init_seconds = None

    def __enter__(self):
        self._out = open(self._log, "ab")
        started = time.monotonic()
        self.process = subprocess.Popen([str(self._binary)], env=self._env, stdin=subprocess.DEVNULL,
                                        stdout=self._out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            self.init_seconds = self.api.wait_until_ready(self.process) - started
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._out.close()
        self.api.close()

    def invoke(self, event, **limits):
        return self.api.invoke(event, self.process, **limits)
