"""Measures Dayport beside the engines that a user would pick for the same day: ClickHouse (chdb), DuckDB and Polars.

    peers.py --dayport target/release/dayport [--records 600000 | --day FOLDER] [--json] [--types 600] [--tenfold]
        [--pipeline "cargo bench --bench pipeline --"] [--out RESULTS.md]

Each side runs alone, in a process of its own, in turn, and is billed by the kernel for what that process used: CPU (user and system),
wall time, peak memory. The engines go from files to files; Dayport reads from and writes to its local S3, whose own process is billed
apart. What Python and the import cost is taken off the engines' bill, and they get the day's schema for nothing. With `--pipeline` the
pipeline alone goes from files to files as well, on one thread and on two, and stage by stage. Prints the medians as Markdown, with the
goals beside them and what was tried (`tried.md`), and writes them to a file with the machine's description.
"""

import argparse
import contextlib
import datetime
import gzip
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "tests", "readers"))
sys.path.insert(0, HERE)

import duckdb  # noqa: E402

import engines  # noqa: E402
import local  # noqa: E402

DATE = "2026-01-15"
DAY_BEFORE = "2026-01-14"
CLOCK_TICK = os.sysconf("SC_CLK_TCK")
NAMES = {
    "chdb": "ClickHouse (chdb)",
    "duckdb": "DuckDB",
    "polars": "Polars",
}


class Bill:
    """What one run of one side cost."""

    def __init__(self, cpu, wall, memory, size, files, server_cpu=None, server_memory=None, scratch=None):
        self.cpu = cpu  # seconds
        self.wall = wall  # seconds
        self.memory = memory  # bytes at the peak
        self.size = size  # bytes put out
        self.files = files
        self.server_cpu = server_cpu
        self.server_memory = server_memory
        self.scratch = scratch  # bytes of scratch at the peak, as far as looking every 20 ms shows


def measure(command, env, scratch=None):
    """Runs a command: (what it printed, CPU seconds, wall seconds, peak bytes of memory, peak bytes below the folder `scratch`)."""
    with tempfile.TemporaryFile() as printed:
        start = time.clock_gettime(time.CLOCK_MONOTONIC)
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=printed)
        watch = ScratchWatch(process.pid, scratch) if scratch else None
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.clock_gettime(time.CLOCK_MONOTONIC) - start
        process.returncode = os.waitstatus_to_exitcode(status)
        peak = watch.end() if watch else None
        printed.seek(0)
        text = printed.read().decode("utf-8", "replace")
    if process.returncode:
        raise RuntimeError(f"`{shlex.join(command)}` ended with {process.returncode}: {text[-2000:]}")
    return text, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, peak, start


class ScratchWatch:
    """Looks every 20 ms at how many bytes a process holds in open files below a folder, removed ones too."""

    def __init__(self, pid, folder):
        self.fds = f"/proc/{pid}/fd"
        self.folder = os.path.realpath(folder) + "/"
        self.peak = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while not self.ended.wait(0.02):
            seen = {}
            with contextlib.suppress(OSError):
                for number in os.listdir(self.fds):
                    with contextlib.suppress(OSError):
                        if os.readlink(f"{self.fds}/{number}").startswith(self.folder):
                            status = os.stat(f"{self.fds}/{number}")
                            seen[status.st_ino] = status.st_blocks * 512
            self.peak = max(self.peak, sum(seen.values()))

    def end(self):
        self.ended.set()
        self.thread.join()
        return self.peak


def size_of(folder):
    """Bytes and number of the files below a folder."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names if not name.startswith(".")]
    return sum(map(os.path.getsize, paths)), len(paths)


class Engine:
    """An engine from files to files."""

    def __init__(self, engine, form, source, schema, rows):
        self.name = NAMES[engine] + {"lines": ", lines passed through", "json": ", parsed"}.get(form, "")
        self.key = f"{engine}-{form}"
        self.engine, self.form, self.source, self.schema, self.rows = engine, form, source, schema, rows

    def once(self, work, verify):
        target = os.path.join(work, "out")
        os.makedirs(target)
        command = [sys.executable, os.path.join(HERE, "engines.py"), self.engine, self.form, self.source, target, self.schema]
        printed, cpu, wall, memory, _, start = measure(command, dict(os.environ))
        begun = json.loads(printed.splitlines()[0])
        if verify:
            check_rows(self.name, target, "parquet" if self.form == "parquet" else "json.gz", self.rows)
        return Bill(cpu - begun["cpu"], wall - (begun["at"] - start), memory, *size_of(target))


class Command:
    """Any other command from files to files, with {source} and {target} in its arguments."""

    def __init__(self, text, source):
        self.name, _, command = text.partition("=")
        self.key = self.name
        self.command, self.source = command, source

    def once(self, work, verify):
        target = os.path.join(work, "out")
        os.makedirs(target)
        command = [part.format(source=self.source, target=target) for part in shlex.split(self.command)]
        _, cpu, wall, memory, _, _ = measure(command, dict(os.environ))
        return Bill(cpu, wall, memory, *size_of(target))


class Dayport:
    """Dayport over its local S3. An ordinary day follows one that was run before, so that the registry knows all columns."""

    def __init__(self, binary, form, source, rows, work, label, ordinary, threads=2):
        self.name = f"Dayport, {label}"
        self.key = f"dayport-{form}-{'ordinary' if ordinary else 'first'}"
        self.binary, self.form, self.rows, self.threads = binary, form, rows, threads
        self.template = os.path.join(work, f"template-{label}-{form}".replace(" ", "-").replace(",", ""))
        for bucket in ("staging", "state", "acme"):
            os.makedirs(os.path.join(self.template, bucket))
        for date in (DATE, *((DAY_BEFORE,) if ordinary else ())):
            folder = os.path.join(self.template, "staging", "events", date)
            os.makedirs(folder)
            for name in sorted(os.listdir(source)):
                os.link(os.path.join(source, name), os.path.join(folder, name))
        if ordinary:
            self._run(self.template, DAY_BEFORE, os.path.join(work, "first.toml"))

    def once(self, work, verify):
        root = os.path.join(work, "s3")
        staging = os.path.join(self.template, "staging")
        shutil.copytree(self.template, root, ignore=lambda folder, names: names if folder.startswith(staging) else [])
        shutil.copytree(staging, os.path.join(root, "staging"), copy_function=os.link, dirs_exist_ok=True)
        bill = self._run(root, DATE, os.path.join(work, "dayport.toml"))
        landed = os.path.join(root, "acme", "exports", "data")
        year, month, day = map(int, DATE.split("-"))
        size, files = 0, 0
        for table in os.listdir(landed):
            partition = os.path.join(landed, table, f"year={year}", f"month={month}", f"day={day}")
            more = size_of(partition)
            size, files = size + more[0], files + more[1]
        if verify:
            pattern = f"*/year={year}/month={month}/day={day}"
            check_rows(self.name, landed, "parquet" if self.form == "parquet" else "json.gz", self.rows, pattern)
        bill.size, bill.files = size, files
        return bill

    def _run(self, root, date, config):
        scratch = os.path.join(os.path.dirname(config), "scratch")
        os.makedirs(scratch, exist_ok=True)
        with open(config, "w", encoding="utf-8") as file:
            file.write(
                f'[staging]\ns3_bucket = "staging"\n\n[state]\ns3_bucket = "state"\n\n'
                f'[run]\nthreads = {self.threads}\nscratch_dir = "{scratch}"\n\n'
                '[event_tables]\ncolumns = { time = "timestamp" }\n\n'
                f'[[destination]]\nname = "acme"\ns3_bucket = "acme"\ns3_prefix = "exports"\nformat = "{self.form}"\n'
            )
        port = local.free_port()
        with local.serving(self.binary, root, port) as server:
            before = cpu_of(server.pid)
            command = local.run_command(self.binary, config, date)
            printed, cpu, wall, memory, peak, _ = measure(command, local.environment(port), scratch)
            server_cpu, server_memory = cpu_of(server.pid) - before, peak_memory_of(server.pid)
        (run,) = local.answer_of(printed)
        if run["counts"]["delivered"] != self.rows:
            raise RuntimeError(f"{self.name} delivered {run['counts']['delivered']} of {self.rows} records")
        return Bill(cpu, wall, memory, 0, 0, server_cpu, server_memory, peak)


def cpu_of(pid):
    """CPU seconds of a running process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICK


def peak_memory_of(pid):
    """Bytes of memory of a running process at its peak."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024


def check_rows(name, folder, extension, rows, pattern="**"):
    """Whoever lands another number of rows did not do the same work."""
    if extension == "parquet":
        with duckdb.connect() as database:
            query = f"SELECT count(*) FROM read_parquet('{folder}/{pattern}/*.parquet', hive_partitioning = false)"
            ((found,),) = database.sql(query).fetchall()
    else:
        found = 0
        for parent, _, names in os.walk(folder):
            inside = pattern == "**" or parent.endswith(pattern.removeprefix("*/"))
            for file_name in names if inside else ():
                with gzip.open(os.path.join(parent, file_name)) as file:
                    found += sum(1 for _ in file)
    if found != rows:
        raise RuntimeError(f"{name} landed {found} of {rows} records")


def compare(sides, rounds, work):
    """Every side once a round, in turn; the bills by side."""
    bills = {side.key: [] for side in sides}
    for number in range(rounds):
        for side in sides:
            with tempfile.TemporaryDirectory(prefix="round-", dir=work) as folder:
                bill = side.once(folder, verify=number == 0)
            bills[side.key].append(bill)
            print(f"round {number + 1}: {side.name}: {bill.cpu:.2f} s CPU, {bill.wall:.2f} s, {bill.memory / 2**20:.0f} MiB", file=sys.stderr)
    return bills


def median(bills, what):
    values = [getattr(bill, what) for bill in bills]
    return None if None in values else statistics.median(values)


def table(sides, bills, references):
    """The medians as a Markdown table, with the ratio of each side's CPU to that of each reference."""
    columns = ["side", "CPU s", "wall s", "peak MiB", "output MB", "files", "local S3: CPU s", "local S3: MiB", "scratch MiB"]
    columns += [f"CPU / {name}" for _, name in references]
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]

    def cell(value, form, scale=1):
        return "" if value is None else format(value / scale, form)

    for side in sides:
        own = bills[side.key]
        cells = [
            side.name,
            cell(median(own, "cpu"), ".2f"),
            cell(median(own, "wall"), ".2f"),
            cell(median(own, "memory"), ".0f", 2**20),
            cell(median(own, "size"), ".1f", 10**6),
            cell(median(own, "files"), ".0f"),
            cell(median(own, "server_cpu"), ".2f"),
            cell(median(own, "server_memory"), ".0f", 2**20),
            cell(median(own, "scratch"), ".0f", 2**20),
        ]
        for key, _ in references:
            cells.append(cell(median(own, "cpu") / median(bills[key], "cpu"), ".2f") if key in bills else "")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def make_day(dayport, records, folder):
    """A sample day of gzip objects, by the command itself."""
    command = [dayport, "sample", "--date", DATE, "--records", str(records), "--seed", "1", "--objects", "24", "--gzip-only", "--out", folder]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=local.environment(local.free_port()))


def count_lines(folder):
    """Records, and bytes before compression, of a folder of gzip NDJSON objects."""
    rows, size = 0, 0
    for name in sorted(os.listdir(folder)):
        with gzip.open(os.path.join(folder, name)) as file:
            for line in file:
                rows += 1
                size += len(line)
    return rows, size


def interleave(source, target, types):
    """The same day with `types` event types instead of its dozen: neighbours of one type get different names."""
    os.makedirs(target)
    names, seen = {}, 0
    pattern = re.compile(rb'"event_name":"([A-Za-z0-9_]+)"')
    for name in sorted(os.listdir(source)):
        with gzip.open(os.path.join(source, name)) as read, gzip.open(os.path.join(target, name), "wb", 6) as write:
            for line in read:
                event = pattern.search(line)[1]
                names.setdefault(event, len(names))
                write.write(pattern.sub(b'"event_name":"\\1_%d"' % (seen % (types // 12)), line, count=1))
                seen += 1


def repeat(source, target, times):
    """A day `times` as large: each object as often, under other names."""
    os.makedirs(target)
    for number in range(times):
        for name in os.listdir(source):
            os.link(os.path.join(source, name), os.path.join(target, f"{number:03}-{name}"))


STAGES = {
    "unpack": "gunzip, cut into chunks of whole lines",
    "shred": "check as UTF-8 and JSON, route, shred into columns (or copy)",
    "gather": "account for every record in input order",
    "encode": "join batches, encode (or gzip)",
}


def pipeline(command, source, rounds):
    """What the pipeline costs by itself, from files to files: the sections of the report, and the figures that have goals."""
    printed = subprocess.run([*shlex.split(command), "report", source, str(rounds)], check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = {}
    costs = [json.loads(line) for line in printed.splitlines()]

    def middle(key, **wanted):
        return statistics.median(cost[key] for cost in costs if all(cost.get(name) == value for name, value in wanted.items()))

    lines = ["", "## From files to files, without the local S3", ""]
    lines += ["| format | day | threads | CPU s | wall s | peak MiB | output MB |", "|---|---|---:|---:|---:|---:|---:|"]
    gains = []
    for form in ("parquet", "json"):
        for what in ("first day", "ordinary day"):
            walls = []
            for threads in (1, 2):
                cpu, wall, peak, size = (
                    middle(key, what=what, format=form, threads=threads) for key in ("cpu", "wall", "peak", "bytes")
                )
                walls.append(wall)
                lines.append(f"| {form} | {what} | {threads} | {cpu:.2f} | {wall:.2f} | {peak / 2**20:.0f} | {size / 10**6:.1f} |")
            gains.append(f"{form}, {what}: {walls[0] / walls[1]:.2f}")
            figures[f"threads-{form}-{what}"] = walls[0] / walls[1]
    lines += ["", f"Two threads against one, by wall time: {'; '.join(gains)}."]
    lines += ["", "## Where the CPU seconds of an ordinary day go", "", "One thread, each stage timed by itself over all objects."]
    for form in ("parquet", "json"):
        whole, floor = middle("all", what="stages", format=form), middle("floor", what="stages", format=form)
        lines += ["", f"| {form} | CPU s | share |", "|---|---:|---:|"]
        for stage, what in STAGES.items():
            spent = middle(stage, what="stages", format=form)
            lines.append(f"| {what} | {spent:.2f} | {spent / whole:.0%} |")
        lines.append(f"| all | {whole:.2f} | 100% |")
        check, ready = middle("check", what="stages", format=form), middle("encode_ready", what="stages", format=form)
        encoding = f", encoding of ready batches {ready:.2f}" if ready else ""
        figures[f"floor-{form}"] = whole / floor
        lines += ["", f"The floor: {floor:.2f} (checking alone {check:.2f}{encoding}). All is {whole / floor:.2f} times the floor."]
    return lines, figures


MB = 10**6


def goals(measured, figures):
    """What each figure should be and is, as a Markdown table: a goal that is not reached is said to be so, and by how much."""

    def ratio(section, what, side, other):
        bills = measured.get(section, {})
        return median(bills[side], what) / median(bills[other], what) if side in bills and other in bills else None

    def memory(section):
        bills = measured.get(section, {}).get("dayport-parquet-ordinary")
        return median(bills, "memory") / MB if bills else None

    tenfold = memory("tenfold") / memory("parquet") if measured.get("tenfold") and memory("parquet") else None
    ordinary, first = "dayport-parquet-ordinary", "dayport-parquet-first"
    rows = [
        ("Parquet, ordinary day: CPU of ClickHouse's", "<=", 0.45, ratio("parquet", "cpu", ordinary, "chdb-parquet")),
        ("Parquet, ordinary day: CPU of DuckDB's", "<=", 0.3, ratio("parquet", "cpu", ordinary, "duckdb-parquet")),
        ("Parquet, ordinary day: CPU of the floor", "<=", 1.3, figures.get("floor-parquet")),
        ("Parquet, first day: CPU of ClickHouse's", "<=", 0.7, ratio("parquet", "cpu", first, "chdb-parquet")),
        ("Parquet: bytes of ClickHouse's", "<=", 1.0, ratio("parquet", "size", ordinary, "chdb-parquet")),
        ("JSON: CPU of ClickHouse's, lines passed through", "<=", 0.8, ratio("json", "cpu", "dayport-json-ordinary", "chdb-lines")),
        ("JSON: bytes of ClickHouse's, lines passed through", "<=", 1.0, ratio("json", "size", "dayport-json-ordinary", "chdb-lines")),
        ("JSON: CPU of DuckDB's", "<=", 0.2, ratio("json", "cpu", "dayport-json-ordinary", "duckdb-json")),
        ("Peak memory, MB: ordinary day", "<=", 256, memory("parquet")),
        ("Peak memory, MB: many event types", "<=", 256, memory("types")),
        ("Peak memory: ten times the day, of one day's", "<=", 1.1, tenfold),
        ("Two threads against one: Parquet, ordinary day", ">=", 1.8, figures.get("threads-parquet-ordinary day")),
        ("Two threads against one: JSON, ordinary day", ">=", 1.8, figures.get("threads-json-ordinary day")),
    ]
    lines = ["", "## The goals", "", "| figure | goal | measured | |", "|---|---:|---:|---|"]
    for figure, relation, goal, value in rows:
        if value is None:
            continue
        reached = value <= goal if relation == "<=" else value >= goal
        verdict = "reached" if reached else f"not reached, by {abs(value / goal - 1):.0%}"
        form = ".0f" if goal >= 100 else ".2f"
        lines.append(f"| {figure} | {relation} {goal} | {value:{form}} | {verdict} |")
    return lines


def machine():
    """What this was measured on."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(re.search(r"MemTotal:\s+(\d+) kB", file.read())[1])
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores, {memory / 2**20:.0f} GiB, Linux {platform.release()}"


def run(options, work):
    """The sections of the report, as lines of Markdown."""
    dayport = options.dayport and os.path.abspath(options.dayport)
    day = os.path.abspath(options.day) if options.day else os.path.join(work, "day")
    if not options.day:
        make_day(dayport, options.records, day)
    source = os.path.join(work, "events")
    shutil.copytree(os.path.join(day, "events") if os.path.isdir(os.path.join(day, "events")) else day, source)
    rows, size = count_lines(source)
    packed, objects = size_of(source)
    schema = os.path.join(work, "schema")
    with open(schema, "wb") as file:
        file.write(engines.find_schema(source).serialize())
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("chdb", "duckdb", "polars"))
    report = [
        "# Dayport beside its peers",
        "",
        f"Measured on {datetime.date.today().isoformat()}: {machine()}. {versions}, Python {platform.python_version()}.",
        "",
        f"The day: {rows:,} events, {size / 10**6:.0f} MB of JSON in {objects} gzip objects of {packed / 10**6:.0f} MB. "
        f"Medians of {options.rounds} rounds, each side alone, in turn, on {engines.THREADS} threads.",
        "",
        "The engines go from files to files, with the day's schema given and without the cost of Python's start and the import. Dayport "
        "reads from and writes to its local S3, a process of its own that is billed apart; it has no schema on a first day, and its "
        "registry on an ordinary one. Every side's rows are counted.",
    ]

    measured = {}

    def section(name, title, sides, references):
        if not sides:
            return
        bills = measured[name] = compare(sides, options.rounds, work)
        report.extend(["", f"## {title}", "", *table(sides, bills, references)])

    def ours(form, folder, count, label, ordinary):
        return [Dayport(dayport, form, folder, count, work, label, ordinary)] if dayport else []

    if not options.no_parquet:
        sides = ours("parquet", source, rows, "ordinary day", True) + ours("parquet", source, rows, "first day", False)
        sides += [Engine(engine, "parquet", source, schema, rows) for engine in ("chdb", "duckdb", "polars")]
        sides += [Command(text, source) for text in options.extra]
        section("parquet", "Gzip NDJSON to Snappy Parquet, a table per event type", sides, [("chdb-parquet", "ClickHouse"), ("duckdb-parquet", "DuckDB")])
    if options.json:
        sides = ours("json", source, rows, "ordinary day", True) + ours("json", source, rows, "first day", False)
        peers = (("chdb", "lines"), ("chdb", "json"), ("duckdb", "json"))
        sides += [Engine(engine, form, source, schema, rows) for engine, form in peers]
        references = [("chdb-lines", "ClickHouse, lines"), ("duckdb-json", "DuckDB")]
        section("json", "Gzip NDJSON to gzip NDJSON, a table per event type", sides, references)
    if options.types and dayport:
        many = os.path.join(work, "many")
        interleave(source, many, options.types)
        label = f"{options.types} interleaved event types"
        section("types", f"The same day of {label}, Parquet", ours("parquet", many, rows, label, True), [])
    if options.tenfold and dayport:
        tenfold = os.path.join(work, "tenfold")
        repeat(source, tenfold, 10)
        section("tenfold", "A day ten times as large, Parquet", ours("parquet", tenfold, rows * 10, "ten times the day", True), [])
    figures = {}
    if options.pipeline:
        lines, figures = pipeline(options.pipeline, source, options.rounds)
        report.extend(lines)
    report.extend(goals(measured, figures))
    with open(os.path.join(HERE, "tried.md"), encoding="utf-8") as file:
        report.extend(["", file.read().rstrip()])
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dayport", help="the built command; without it only the peers run")
    parser.add_argument("--day", help="a folder of gzip NDJSON objects, or one with such a folder `events`; default: a sample day is made")
    parser.add_argument("--records", type=int, default=600_000, help="records of the sample day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="measure JSON output too")
    parser.add_argument("--no-parquet", action="store_true", help="leave Parquet out")
    parser.add_argument("--types", type=int, default=0, help="measure Dayport on so many interleaved event types (600)")
    parser.add_argument("--tenfold", action="store_true", help="measure Dayport on a day ten times as large")
    parser.add_argument("--pipeline", metavar="COMMAND", help="measure the pipeline from files to files too, by this command (benches/pipeline.rs)")
    parser.add_argument("--extra", action="append", default=[], metavar="NAME=COMMAND", help="one more side; {source} and {target} are filled in")
    parser.add_argument("--work", help="where to work (the day, what lands); default: the system's temporary folder")
    parser.add_argument("--out", help="write the report to this file")
    options = parser.parse_args()
    if not options.day and not options.dayport:
        parser.error("give --day, or --dayport to make a sample day")
    with tempfile.TemporaryDirectory(prefix="peers-", dir=options.work) as work:
        report = "\n".join(run(options, work)) + "\n"
    print(report, end="")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
