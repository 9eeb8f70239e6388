"""Lands one sample day in both layouts and formats and has other implementations compare every row and value.

Then runs it again by force, with another number of threads, into the full buckets and into emptied ones: the same
names and bytes (permutive), new names beside the old (pontoon).
"""

import argparse
import hashlib
import shutil
import sys
import time

import lab


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--keep", action="store_true", help="leave the landed day in target/readback")
    options = options.parse_args()
    lab.refuse_missing(lab.CLI)
    lab.stop_on_signals()

    folder = lab.ROOT / "target/readback"
    shutil.rmtree(folder, ignore_errors=True)
    buckets = folder / "s3"
    with lab.local_s3(buckets) as endpoint:
        timed("staged", lab.stage_sample, endpoint, options.records)
        timed("landed", land, endpoint, folder, 2)
        for destination in lab.destinations():
            timed(f"compared {destination['name']}", lab.compare, buckets, destination)

        first = digests(buckets)
        timed("landed again by force", land, endpoint, folder, 1, "--force")
        check_again(first, digests(buckets), "into the full buckets")
        for destination in lab.destinations():
            empty(buckets / destination["s3_bucket"])
        timed("landed again by force", land, endpoint, folder, 3, "--force")
        check_again(first, digests(buckets), "into emptied buckets", emptied=True)
    if not options.keep:
        shutil.rmtree(folder)
    print("every row and value is what was staged; re-runs are the same")


def timed(what, function, *arguments):
    started = time.monotonic()
    function(*arguments)
    print(f"{what}: {time.monotonic() - started:.1f} s", flush=True)


def land(endpoint, folder, threads, *flags):
    config = folder / "dayport.toml"
    config.write_text(lab.CONFIG.read_text() + f"\n[run]\nthreads = {threads}\n")
    lab.run_day(endpoint, config, *flags)


def digests(buckets):
    """Name and SHA-256 of all that each destination holds, without the manifest (it counts the re-runs)."""
    found = {}
    for destination in lab.destinations():
        bucket = buckets / destination["s3_bucket"]
        for path in bucket.rglob("*"):
            if path.is_file() and "_dayport" not in path.parts:
                found[destination["name"], str(path.relative_to(bucket))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def check_again(first, again, where, emptied=False):
    layouts = {destination["name"]: destination["layout"] for destination in lab.destinations()}

    def of(found, layout):
        return {key: digest for key, digest in found.items() if layouts[key[0]] == layout}

    if of(first, "permutive") != of(again, "permutive"):
        different = sorted(set(first.items()) ^ set(again.items()))[:5]
        sys.exit(f"a forced re-run {where} is not the same names and bytes (permutive): {different}")
    before, after = of(first, "pontoon"), of(again, "pontoon")
    kept = {} if emptied else before
    new = {key: digest for key, digest in after.items() if key not in before}
    if after != {**kept, **new} or len(new) != len(before):
        sys.exit(f"a forced re-run {where} did not add one new transfer (pontoon): {len(before)} files, then {len(after)}")


def empty(bucket):
    for entry in bucket.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


if __name__ == "__main__":
    main()
