"""The readers that users have: each gives the rows of Parquet files, one by one and together, in one form that can be compared.

pyarrow and duckdb are in CI; polars and Spark come with `make readers`.
"""

import datetime
import os

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
MICROSECOND = datetime.timedelta(microseconds=1)


def canonical(value):
    """A value without nulls and empty structs, whose times are microseconds; None where nothing is left.

    Readers differ in whether a struct of nulls is null, and a file cannot tell a column that it lacks from one that is null.
    """
    if isinstance(value, dict):
        found = {name: canonical(inner) for name, inner in value.items()}
        return {name: inner for name, inner in found.items() if inner is not None} or None
    if isinstance(value, (list, tuple)):
        return [canonical(element) for element in value]
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return (aware - EPOCH) // MICROSECOND
    if isinstance(value, float) and value == 0:
        return (value, str(value))  # 0.0 and -0.0 are two values
    return value


def rows(found):
    return [canonical(row) or {} for row in found]


class Pyarrow:
    name = f"pyarrow {pa.__version__}"

    def alone(self, paths):
        return {path: rows(pq.read_table(path, partitioning=None).to_pylist()) for path in paths}

    def together(self, paths):
        # The last file has every column: the registry only grows.
        schema = pq.read_schema(paths[-1])
        return rows(ds.dataset(paths, schema=schema, format="parquet").to_table().to_pylist())

    def lines(self, path):
        with pa.input_stream(path, compression="gzip") as stream:
            return stream.read().decode().splitlines()


class Duckdb:
    name = f"duckdb {duckdb.__version__}"
    note = None

    def _read(self, query, **arguments):
        with duckdb.connect(config={"threads": 1}) as database:
            database.execute("SET TimeZone = 'UTC'")
            return rows(database.sql(query, **arguments).to_arrow_table().to_pylist())

    def alone(self, paths):
        return {path: self._read("SELECT * FROM read_parquet(?, hive_partitioning = false)", params=[path]) for path in paths}

    def together(self, paths):
        one = "SELECT * FROM read_parquet({}, hive_partitioning = false{})"
        try:
            return self._read(one.format(paths, ", union_by_name = true"))
        except duckdb.InternalException:
            # DuckDB 2.0.1 does so with files of any writer (pyarrow's too), where a struct that is null in a row gains a struct later.
            self.note = "duckdb's union_by_name fails inside where a null struct gains a struct later; UNION ALL BY NAME reads the same files"
            return self._read(" UNION ALL BY NAME ".join(one.format(f"'{path}'", "") for path in paths))

    def lines(self, path):
        query = "SELECT json::VARCHAR FROM read_ndjson_objects(?, compression = 'gzip', maximum_object_size = 134217728, hive_partitioning = false)"
        with duckdb.connect(config={"threads": 1}) as database:
            return [line for line, in database.execute(query, [path]).fetchall()]


class Polars:
    def __init__(self):
        import polars

        self.polars = polars
        self.name = f"polars {polars.__version__}"

    def alone(self, paths):
        read = self.polars.read_parquet
        return {path: rows(read(path, hive_partitioning=False).to_dicts()) for path in paths}

    def together(self, paths):
        polars = self.polars
        schema = polars.read_parquet_schema(paths[-1])
        casts = polars.ScanCastOptions(missing_struct_fields="insert")
        scan = polars.scan_parquet(paths, schema=schema, missing_columns="insert", cast_options=casts, hive_partitioning=False)
        return rows(scan.collect().to_dicts())

    def lines(self, path):
        polars = self.polars
        return polars.scan_lines(path, name="line").collect()["line"].to_list()


class Spark:
    def __init__(self):
        os.environ["TZ"] = "UTC"
        import pyspark
        from pyspark.sql import SparkSession

        self.name = f"Spark {pyspark.__version__}"
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
            # As Spark is by itself: no two columns may differ only in case.
            "spark.sql.caseSensitive": "false",
        }
        builder = SparkSession.builder.master("local[1]").appName("dayport-readers")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def alone(self, paths):
        """Files of one schema are read at once, and told apart by what Spark says of their names: a job a file takes too long."""
        groups, found = {}, {path: [] for path in paths}
        for path in paths:
            groups.setdefault(str(pq.read_schema(path)), []).append(path)
        for group in groups.values():
            by_name = {os.path.realpath(path): path for path in group}
            frame = self.spark.read.parquet(*group)
            for row in frame.selectExpr("_metadata.file_path AS _path", "struct(*) AS _row").collect():
                path = by_name[os.path.realpath(row["_path"].removeprefix("file:").replace("///", "/"))]
                found[path].append(canonical(row["_row"].asDict(recursive=True)) or {})
        return found

    def together(self, paths):
        frame = self.spark.read.option("mergeSchema", "true").parquet(*paths)
        return rows(row.asDict(recursive=True) for row in frame.collect())

    def lines(self, path):
        return [row["value"] for row in self.spark.read.option("lineSep", "\n").text(path).collect()]


READERS = {"pyarrow": Pyarrow, "duckdb": Duckdb, "polars": Polars, "spark": Spark}
