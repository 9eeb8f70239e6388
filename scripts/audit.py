"""`make audit`: what is linked (cargo-deny, by `deny.toml`) and what the template leaves open (checkov, by `.checkov.yaml`).

cargo-deny is taken from the path, or built into `.venv` once. Advisories are checked where their database can be reached, and it is said
where not.
"""

import os
import shutil
import subprocess
import sys

import lab

DENY_VERSION = "0.20.2"
VENV = lab.ROOT / ".venv"


def run(what, argv):
    print(f"--- {what}: {' '.join(map(str, argv))}", flush=True)
    good = subprocess.run([str(part) for part in argv], cwd=lab.ROOT, stdin=subprocess.DEVNULL).returncode == 0
    print(f"{what}: {'ok' if good else 'FAILED'}", flush=True)
    return good


def main():
    os.environ["PATH"] = f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
    if not shutil.which("cargo-deny"):
        install = ["cargo", "install", "cargo-deny", "--locked", "--version", DENY_VERSION, "--root", VENV]
        if not run("cargo-deny is not there, so it is built", install):
            sys.exit(1)
    deny = ["cargo", "deny", "--locked"]
    results = [run("licences, duplicates, sources", [*deny, "check", "--hide-inclusion-graph", "licenses", "bans", "sources"])]
    fetched = subprocess.run([*deny, "fetch", "db"], cwd=lab.ROOT, stdin=subprocess.DEVNULL, capture_output=True)
    if fetched.returncode == 0:
        results.append(run("advisories", [*deny, "check", "--disable-fetch", "advisories"]))
    else:
        print("advisories: NOT CHECKED, their database (github.com/RustSec/advisory-db) can't be reached from here", flush=True)
    results.append(run("the template", [VENV / "audit/bin/checkov", "--config-file", ".checkov.yaml"]))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    lab.stop_on_signals()
    main()
