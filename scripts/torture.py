"""`make torture`: kills, stalls, races and storms of many seeds, and one line that sums up what came of them.

    torture.py SEEDS

Fails if anything was violated, or if one of the four did not say what it did.
"""

import os
import re
import subprocess
import sys

import lab

KINDS = {"kills", "stalls", "races", "storms"}
TESTS = ["kills::", "stalls::", "storms::a_day_that_lands"]
LINE = re.compile(r"\b(\w+): (\d+) seeds from \d+, (\d+) runs, (\d+) kills, (\d+) faults, (\d+) violations")


def summary(found):
    """The sums over all kinds as a line, and whether all is well."""
    seeds, runs, kills, faults, violations = (sum(numbers) for numbers in zip(*found.values(), strict=True)) if found else (0,) * 5
    missing = sorted(KINDS - found.keys())
    line = f"torture: {seeds:,} seeds, {runs:,} runs, {kills:,} kills, {faults:,} faults, violations {violations}"
    return line + (f"; no word of {', '.join(missing)}" if missing else ""), not missing and violations == 0


def main():
    command = ["cargo", "test", "--locked", "--test", "it", "--", "--nocapture", "--test-threads", "1", *TESTS]
    process = subprocess.Popen(command, cwd=lab.ROOT, env={**os.environ, "TORTURE_SEEDS": sys.argv[1]}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    found = {}
    for line in process.stdout:
        print(line, end="", flush=True)
        said = LINE.search(line)
        if said:
            found[said[1]] = [int(number) for number in said.groups()[1:]]
    line, is_well = summary(found)
    print(line)
    return 0 if process.wait() == 0 and is_well else 1


if __name__ == "__main__":
    lab.stop_on_signals()
    sys.exit(main())
