"""A proxy that passes S3's requests on as they came, signatures and all, and remembers what was asked."""

import contextlib
import dataclasses
import http.client
import http.server
import threading
import urllib.parse


@dataclasses.dataclass(frozen=True)
class Request:
    method: str
    bucket: str
    key: str
    query: tuple
    headers: tuple

    def header(self, name):
        return dict(self.headers).get(name)

    def argument(self, name):
        return dict(self.query).get(name)

    @property
    def operation(self):
        """The S3 API's name for it."""
        names = {name for name, _ in self.query}
        if self.method == "GET" and not self.key:
            return "ListMultipartUploads" if "uploads" in names else "ListObjectsV2"
        if self.method == "POST":
            return "CreateMultipartUpload" if "uploads" in names else "CompleteMultipartUpload"
        if "uploadId" in names:
            return {"PUT": "UploadPart", "DELETE": "AbortMultipartUpload"}[self.method]
        return {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}[self.method]


@contextlib.contextmanager
def recording(endpoint, adapt=None, tls=None):
    """Gives the proxy's own endpoint, and the list that grows with every request.

    `adapt(method, path, headers, body)` may give another path and other headers to be passed on; what is remembered is what was asked.
    """
    target = urllib.parse.urlsplit(endpoint)
    is_tls = target.scheme == "https"
    seen, lock = [], threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self):
            # A client that is told to stop hangs up, and waits for no answer.
            with contextlib.suppress(ConnectionError):
                super().handle()

        def pass_on(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path, _, query = self.path.partition("?")
            bucket, _, key = path.lstrip("/").partition("/")
            request = Request(
                self.command, bucket, urllib.parse.unquote(key),
                tuple(urllib.parse.parse_qsl(query, keep_blank_values=True)),
                tuple((name.lower(), value) for name, value in self.headers.items()))
            with lock:
                seen.append(request)
            if is_tls:
                link = http.client.HTTPSConnection(target.hostname, target.port, timeout=60, context=tls)
            else:
                link = http.client.HTTPConnection(target.hostname, target.port, timeout=60)
            onward = [(name, value) for name, value in self.headers.items() if name.lower() not in ("expect", "connection")]
            onward_path = self.path
            if adapt:
                onward_path, onward = adapt(self.command, self.path, onward, body)
            link.putrequest(self.command, onward_path, skip_host=True, skip_accept_encoding=True)
            for name, value in onward:
                link.putheader(name, value)
            link.endheaders(body)
            answer = link.getresponse()
            content = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("content-length", answer.getheader("content-length", "0") if self.command == "HEAD" else str(len(content)))
            self.end_headers()
            link.close()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
