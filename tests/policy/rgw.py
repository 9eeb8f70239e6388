"""Ceph's object gateway on loopback, from Debian's packages: plain processes, everything in a folder, nothing stored when it ends.

It is the one S3 server at hand that enforces bucket policies across accounts: its tenants stand for accounts, and a bucket of another
tenant's is addressed as `tenant:bucket`, which no S3 client writes. So requests go through a proxy that rewrites and signs them again.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import urllib.parse
import uuid

import recorder
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import lab  # noqa: E402

PACKAGES = ("ceph-mon", "ceph-osd", "radosgw", "ceph-common")
PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "ceph-authtool", "monmaptool", "openssl")
REGION = "us-east-1"


def install():
    """Installs Debian's packages where a program is missing."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if not missing:
        return
    install_them = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES, "openssl"]
    if os.geteuid() != 0:
        raise SystemExit(f"{', '.join(missing)} are missing, install them first: sudo {' '.join(install_them)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], install_them):
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


@dataclasses.dataclass(frozen=True)
class Identity:
    """A user of a tenant. The access key is its name, so that a log can be read."""

    tenant: str
    name: str

    @property
    def key(self):
        return f"{self.tenant}.{self.name}"

    @property
    def secret(self):
        return f"secret.of.{self.key}"

    @property
    def arn(self):
        return f"arn:aws:iam::{self.tenant}:user/{self.name}"


class Server:
    """A running gateway."""

    def __init__(self, folder, tls_port, plain_port):
        self.folder = folder
        self.endpoint = f"https://127.0.0.1:{tls_port}"
        self.plain_endpoint = f"http://127.0.0.1:{plain_port}"
        self.certificate = folder / "tls.pem"
        self.tls = ssl.create_default_context(cafile=self.certificate)

    def tool(self, *argv):
        argv = [argv[0], "-c", self.folder / "ceph.conf", *argv[1:]]
        done = subprocess.run([str(part) for part in argv], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def version(self):
        return self.tool("radosgw", "--version").split("(")[0].removeprefix("ceph version").strip()

    def add(self, identity):
        self.tool("radosgw-admin", "user", "create", "--tenant", identity.tenant, "--uid", identity.name, "--display-name", identity.name,
                  "--access-key", identity.key, "--secret", identity.secret)
        return identity

    def as_seen_by(self, identity, tenant_of, is_plain=False, adapts_etags=True):
        """A proxy that signs as `identity`; gives its endpoint and what was asked. `tenant_of` tells a bucket's tenant by its name."""
        credentials = Credentials(identity.key, identity.secret)
        endpoint = self.plain_endpoint if is_plain else self.endpoint

        def adapt(method, path, headers, body):
            place, _, query = path.partition("?")
            bucket, slash, key = place.removeprefix("/").partition("/")
            tenant = tenant_of(bucket)
            # The gateway decodes and encodes the path before it checks the signature, so the colon has to be encoded to begin with.
            onward = f"/{bucket}{slash}{key}" if tenant == identity.tenant else f"/{tenant}%3A{bucket}{slash}{key}"
            onward += f"?{query}" if query else ""
            kept = {name.lower(): value for name, value in headers}
            kept = {name: value for name, value in kept.items() if name in KEPT or (name.startswith("x-amz-") and name not in SIGNED_ANEW)}
            for name in kept:
                # This gateway compares an ETag without its quotes with what it is sent, quotes and all.
                if adapts_etags and name == "if-match" and method == "PUT":
                    kept[name] = kept[name].strip('"')
            request = AWSRequest(method=method, url=endpoint + onward, data=body, headers=kept)
            S3SigV4Auth(credentials, "s3", REGION).add_auth(request)
            host = urllib.parse.urlsplit(endpoint).netloc
            return onward, [("host", host), *request.headers.items(), ("content-length", str(len(body)))]

        return recorder.recording(endpoint, adapt, self.tls)


KEPT = {"content-type", "content-md5", "content-encoding", "range", "if-match", "if-none-match"}
SIGNED_ANEW = {"x-amz-date", "x-amz-security-token", "x-amz-user-agent"}

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon_port}/0]
mon initial members = a
public addr = 127.0.0.1
public network = 127.0.0.0/8
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = {folder}/keyring
log file = {folder}/$name.log
admin socket = {folder}/$name.asok
pid file =
run dir = {folder}
mon data = {folder}/mon
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 1
rgw frontends = beast endpoint=127.0.0.1:{plain_port} ssl_endpoint=127.0.0.1:{tls_port} ssl_certificate={folder}/tls.pem
rgw thread pool size = 64
"""


@contextlib.contextmanager
def running(folder):
    """A monitor, a store in memory and a gateway, until the block ends. No manager: nothing here asks for statistics."""
    folder.mkdir()
    for name in ("mon", "osd"):
        (folder / name).mkdir()
    mon_port, tls_port, plain_port = (lab.free_port() for _ in range(3))
    fsid, osd = uuid.uuid4(), uuid.uuid4()
    text = CONFIGURATION.format(folder=folder, fsid=fsid, mon_port=mon_port, tls_port=tls_port, plain_port=plain_port)
    (folder / "ceph.conf").write_text(text)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"], check=True, capture_output=True)
    (folder / "tls.pem").write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    server = Server(folder, tls_port, plain_port)

    every = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
    server.tool("ceph-authtool", "-C", "keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
    for name in ("client.admin", "osd.0", "client.rgw"):
        server.tool("ceph-authtool", "keyring", "--gen-key", "-n", name, *every)
    server.tool("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{mon_port}]", "monmap")
    server.tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap", "--keyring", "keyring")
    config = ["-c", folder / "ceph.conf", "-f"]
    env = lab.environment()
    with lab.running(["ceph-mon", *config, "-i", "a"], folder / "mon.out", env, mon_port):
        server.tool("ceph", "osd", "new", osd, "0")
        server.tool("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        with lab.running(["ceph-osd", *config, "-i", "0"], folder / "osd.out", env):
            with lab.running(["radosgw", *config, "-n", "client.rgw"], folder / "rgw.out", env, tls_port, 120):
                yield server
