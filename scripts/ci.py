"""`make test`: runs every stage that must pass, says how long each took, and closes with what passed and failed.

A stage's output goes to `target/ci/<stage>.log`; of a stage that fails, the end is shown. A stage that needs one that
failed is skipped; the others still run, so that one run shows all that is wrong.
"""

import argparse
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time

import lab

LOGS = lab.ROOT / "target/ci"


def count_cargo(log):
    results = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed;", log, re.MULTILINE)
    return sum(int(passed) for passed, _ in results), sum(int(failed) for _, failed in results)


def count_unittest(log):
    total = sum(int(ran) for ran in re.findall(r"^Ran (\d+) tests? in", log, re.MULTILINE))
    bad = sum(int(number) for number in re.findall(r"(?:failures|errors)=(\d+)", log))
    return max(total - bad, 0), bad


@dataclasses.dataclass
class Stage:
    name: str
    shows: str
    commands: list
    needs: tuple = ()
    minutes: int = 10
    count: object = None  # how to count tests in the log; else the stage is one
    judge: object = None  # a further look at the log: gives what is wrong, or None
    state: str = ""
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0


def outside_core(log):
    """The core knows no AWS, no runtime and no network: HOUSE's rule, read off its own dependency tree."""
    names = {line.split()[0] for line in log.splitlines() if re.match(r"^[\w-]+ v\d", line)}
    if not names:
        return "the tree is empty"
    alien = sorted(name for name in names if re.search(r"aws|lambda|hyper|rustls|tokio", name))
    return f"the core depends on {', '.join(alien)}" if alien else None


def secrets_of_the_tests():
    """What the tests use as secrets: each may be known to the test and the server that it plays, and be printed by nobody."""
    found = set()
    for path in (lab.ROOT / "src").rglob("*.rs"):
        found.update(re.findall(r'const \w*(?:SECRET|TOKEN): &str = "([^":]{12,})";', path.read_text()))
    return found - {"AWS_SECRET_ACCESS_KEY"}


def printed_secrets(_log):
    """Looks through all that the stages before printed."""
    secrets = secrets_of_the_tests()
    if len(secrets) < 3:
        return f"only {len(secrets)} secrets are known: look for them anew"
    for path in sorted(LOGS.glob("*.log")):
        text = path.read_text(errors="replace")
        if any(secret in text for secret in secrets):
            return f"{path.relative_to(lab.ROOT)} holds a secret of the tests"
    return None


def stages():
    python = sys.executable
    clippy = ["cargo", "clippy", "--locked"]
    return [
        Stage("format", "cargo fmt --check", [["cargo", "fmt", "--check"]]),
        Stage("core", "what the core depends on",
              [["cargo", "tree", "--locked", "--no-default-features", "-e", "normal", "--prefix", "none"]],
              judge=outside_core),
        Stage("template", "cfn-lint, sam validate --lint",
              [["cfn-lint", "template.yaml"], ["sam", "validate", "--lint", "--region", "us-east-1"],
               [python, "tests/template/test_template.py"]], count=count_unittest),
        Stage("clippy", "cargo clippy, warnings denied",
              [[*clippy, "--all-targets", "--", "-D", "warnings"],
               # What is dead without the rest is seen in the build that goes without it: the function, the core.
               [*clippy, "--no-default-features", "--features", "lambda", "--bins", "--", "-D", "warnings"],
               [*clippy, "--no-default-features", "--lib", "--", "-D", "warnings"]], minutes=30),
        Stage("build", "cargo test --no-run", [["cargo", "test", "--locked", "--no-run"]], minutes=30),
        Stage("tests", "cargo test", [["cargo", "test", "--locked", "--", "--show-output"]], needs=("build",), minutes=25,
              count=count_cargo),
        Stage("cli", "cargo build --release", [["cargo", "build", "--locked", "--release", "--bin", "dayport"]], minutes=30),
        Stage("artefact", "cargo lambda build, sam build",
              [["cargo", "lambda", "build", "--locked", "--release", "--bin", "dayport-lambda"],
               ["sam", "build"],
               ["cmp", "target/lambda/dayport-lambda/bootstrap", ".aws-sam/build/Function/bootstrap"]],
              minutes=30),
        Stage("invoke", "the artefact under Lambda's Runtime API", [[python, "-u", "tests/artefact/test_artefact.py"]],
              needs=("cli", "artefact"), count=count_unittest),
        Stage("work", "the work queue: the artefact between moto's SQS and the local S3",
              [[python, "-u", "tests/artefact/test_work_queue.py"]], needs=("cli", "artefact"), count=count_unittest),
        Stage("policy", "both sides' policies, evaluated",
              [["npm", "ci", "--prefix", "tests/policy", "--no-fund", "--no-audit"],
               [python, "-u", "tests/policy/test_policy.py"]], needs=("cli",), count=count_unittest),
        Stage("queue", "messages through an SQS API", [[python, "-u", "tests/queue/test_queue.py"]],
              needs=("cli",), count=count_unittest),
        Stage("readers", "staged cases, read by others",
              [[python, "tests/readers/test_compare.py"], [python, "-u", "tests/readers/test_cases.py"],
               [python, "-u", "tests/readers/test_ddl.py"]],
              needs=("cli",), count=count_unittest),
        Stage("readback", "200,000 records, every value", [[python, "-u", "scripts/readback.py"]], needs=("cli",), minutes=15),
        Stage("demo", "make demo, by cargo lambda watch", [[python, "-u", "scripts/demo.py"]], needs=("cli", "artefact")),
        Stage("secrets", "nothing that was printed is a secret", [], judge=printed_secrets),
    ]


def run(stage):
    """Runs the stage's commands into its log; true if all went well."""
    until = time.monotonic() + stage.minutes * 60
    path = LOGS / f"{stage.name}.log"
    with open(path, "wb") as log:
        for command in stage.commands:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(command, cwd=lab.ROOT, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True,
                                       env={**os.environ, "CARGO_TERM_COLOR": "never", "NO_COLOR": "1"})
            try:
                code = process.wait(max(until - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                code = f"a stop after {stage.minutes} minutes"
            finally:
                if process.poll() is None:
                    end(process)
            if code != 0:
                log.write(f"\nended with {code}: {' '.join(command)}\n".encode())
                return False
    wrong = stage.judge(path.read_text(errors="replace")) if stage.judge else None
    if wrong:
        with open(path, "a") as log:
            log.write(f"\n{wrong}\n")
    return not wrong


def end(process):
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main():
    every = stages()
    names = [stage.name for stage in every]
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("stages", nargs="*", metavar="STAGE", help=f"only these: {', '.join(names)}")
    wanted = options.parse_args().stages
    if unknown := set(wanted) - set(names):
        sys.exit(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    lab.stop_on_signals()
    LOGS.mkdir(parents=True, exist_ok=True)

    chosen = [stage for stage in every if not wanted or stage.name in wanted]
    for stage in chosen:
        broken = [other.name for other in chosen if other.name in stage.needs and other.state != "ok"]
        if broken:
            stage.state = f"skipped: needs {', '.join(broken)}"
            print(f"{stage.name:<10}{stage.state}", flush=True)
            continue
        print(f"{stage.name:<10}{stage.shows} ... ", end="", flush=True)
        started = time.monotonic()
        good = run(stage)
        stage.seconds = time.monotonic() - started
        judge(stage, good)
        print(f"{stage.state}, {stage.seconds:.0f} s", flush=True)
        if not good:
            log = LOGS / f"{stage.name}.log"
            print(f"--- the end of {log.relative_to(lab.ROOT)}\n{lab.tail(log)}\n---", flush=True)
    close(chosen)


def blame(log, most=6):
    """Of a failed stage's log, the lines that name what failed: whoever sees only the end of the output must not have to guess.

    Tests that failed, cargo's and Python's, and those of cargo's that were begun long ago and never ended; where no test is named, the last lines.
    """
    named = re.findall(r"^test (\S+) \.\.\. FAILED", log, re.MULTILINE)
    named += re.findall(r"^(?:FAIL|ERROR): (.*)", log, re.MULTILINE)
    ended = set(re.findall(r"^test (\S+) \.\.\. ", log, re.MULTILINE))
    slow = re.findall(r"^test (\S+) has been running for over", log, re.MULTILINE)
    named += [f"{test} did not end" for test in slow if test not in ended]
    if named:
        return named[:most] + ([f"and {len(named) - most} more"] if len(named) > most else [])
    return [line for line in log.splitlines() if line.strip()][-3:]


def judge(stage, good):
    log = (LOGS / f"{stage.name}.log").read_text(errors="replace")
    stage.passed, stage.failed = stage.count(log) if stage.count else (int(good), int(not good))
    if good and stage.passed == 0:
        good = False
    if not good:
        stage.failed = max(stage.failed, 1)
    stage.state = "ok" if good else "FAILED"


def close(chosen):
    print()
    for stage in chosen:
        print(f"{stage.name:<10}{stage.seconds:>7.0f} s  {stage.passed:>5} passed {stage.failed:>3} failed  {stage.state}")
    print(f"{'in all':<10}{sum(stage.seconds for stage in chosen):>7.0f} s\n")
    for stage in chosen:
        if stage.state == "FAILED":
            log = (LOGS / f"{stage.name}.log").read_text(errors="replace")
            print("\n".join(f"{stage.name}: {line[:200]}" for line in blame(log)) + "\n")
    passed, failed = sum(stage.passed for stage in chosen), sum(stage.failed for stage in chosen)
    skipped = sum(stage.state.startswith("skipped") for stage in chosen)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    sys.exit(1 if failed or skipped else 0)


if __name__ == "__main__":
    main()
