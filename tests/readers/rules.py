"""Dayport's published rules in Python, written from the contract and not from the Rust code: table names, column names, times."""

import datetime
import hashlib
import re

REFERENCE_TABLES = ("aliases", "domains", "segment_metadata")
RESERVED_COLUMNS = ("year", "month", "day", "dt")

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]| UTC|([+-])(\d\d):?(\d\d))?)?",
    re.ASCII,
)


def _hash8(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def table_name(event_name):
    """The table of an event name: lower case, `[a-z0-9_]` only, a hash wherever more than case was changed."""
    lower = event_name.lower()
    name = re.sub(r"[^a-z0-9_]", "_", lower)
    if name == lower and not name.startswith("_") and len(name) <= 100:
        return f"{name}_events"
    name = name[:100]
    if name.startswith("_"):
        name = f"t{name}"
    return f"{name}_{_hash8(lower)}_events"


def column_name(key, at_top, rescue_column="_rescued_data"):
    """The column name of a key at the top level or below."""
    lower = key.lower()
    reserved = at_top and (lower in RESERVED_COLUMNS or lower == rescue_column or lower.startswith("pontoon__"))
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) and len(key) <= 120 and not reserved:
        return key
    name = re.sub(r"[^A-Za-z0-9_]", "_", key)
    if not name or name[0].isdigit():
        name = f"c{name}"
    return f"{name}_{_hash8(key)}"


def instant(value):
    """Microseconds since 1970 of a staged time (a string, or a number's text as `Number`), or None where it is not one."""
    text = str(value)
    if re.fullmatch(r"\d{10}|\d{13}|\d{16}|\d{19}", text, re.ASCII) or type(value) is not str:
        return _epoch(text)
    match = _RFC_3339.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = match.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    seconds = int(second or 0)
    if seconds == 60:
        seconds, micros = 59, 999_999
    try:
        moment = datetime.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), seconds, micros)
    except ValueError:
        return None
    result = (moment - _EPOCH) // _MICROSECOND
    if sign:
        if int(offset_hours) > 23 or int(offset_minutes) > 59:
            return None
        offset = (int(offset_hours) * 60 + int(offset_minutes)) * 60_000_000
        result += -offset if sign == "+" else offset
    return _in_range(result)


def _epoch(text):
    from decimal import Decimal, InvalidOperation

    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or number <= 0 or number.adjusted() > 20:
        return None
    for limit, micros in ((10**11, Decimal(10**6)), (10**14, Decimal(1000)), (10**17, Decimal(1))):
        if number < limit:
            return _in_range(int(number * micros))
    return _in_range(int(number / 1000))


def _in_range(micros):
    # Years 1970 to 9998.
    return micros if 0 <= micros < 253_370_764_800_000_000 else None
