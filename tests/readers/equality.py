"""When a landed record is the staged one: the equality of Dayport's tables, defined here and nowhere else.

JSON values with numbers of any precision by value, less null, `{}` and `[]` and what contains only those; declared timestamps as
instants cut to microseconds; a value in a string column by its JSON text; a literal string in a declared column by its value; what
the rescue column holds, put back at its pointers; an integer column's `_double` sibling as a second home of the same number.
"""

import json
import re
import sys
from decimal import Decimal

from rules import column_name, instant

# Numbers of staged JSON may have more digits than Python converts by default.
sys.set_int_max_str_digits(0)

INT64 = range(-(2**63), 2**63)
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()

    def is_integer_text(self):
        return not ("." in self or "e" in self or "E" in self)


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_no_constant)


def parse(text):
    """A JSON text, with each number as `Number`; of a repeated key the last value counts."""
    return _DECODER.decode(text)


def parse_first(text, start):
    """The JSON value that starts at `start`, and where it ends."""
    return _DECODER.raw_decode(text, start)


def is_empty(value):
    """True for null, `{}`, `[]` and what contains only those."""
    if value is None:
        return True
    if isinstance(value, dict):
        return all(is_empty(child) for child in value.values())
    if isinstance(value, list):
        return all(is_empty(child) for child in value)
    return False


def count_values(value):
    """How many scalars other than null a JSON value holds."""
    if isinstance(value, dict):
        return sum(map(count_values, value.values()))
    if isinstance(value, list):
        return sum(map(count_values, value))
    return value is not None


def same_json(one, other):
    """Whether two parsed JSON values are the same, numbers by value; nothing is left out."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, Number):
        return str(one) == str(other) or _decimal(one) == _decimal(other)
    return one == other


def _decimal(number):
    # Decimal keeps all digits of its text; only its operations round.
    return Decimal(str(number))


def same_number(staged, landed):
    """Whether a number's text is the landed integer or double. A fraction is its nearest double; an integer must be exact."""
    if isinstance(landed, int):
        if staged.is_integer_text():
            return int(staged) == landed
        return abs(_decimal(staged).adjusted()) < 40 and _decimal(staged) == landed
    if staged.is_integer_text():
        return landed.is_integer() and int(landed) == int(staged)
    return float(staged) == landed


class Column:
    """A landed column, at any depth: its kind, whether it was declared, and its children by column name."""

    def __init__(self, kind, declared=False, children=None, element=None):
        self.kind = kind  # boolean, int64, double, string, timestamp, list or struct
        self.declared = declared
        self.children = children or {}
        self.element = element
        self.originals = {}  # original key -> column name, as the manifest has them
        self.by_lower = {}
        self.siblings = {}  # name of an int64 column -> name of its double sibling
        self.homes = {}  # key -> column name or None, remembered

    def finish(self):
        """To be called once all children are there."""
        for name, child in self.children.items():
            self.by_lower.setdefault(name.lower(), name)
            sibling = re.fullmatch(r"(.+)_double(_[0-9a-f]{8})?", name)
            if sibling and child.kind == "double":
                integer = self.children.get(sibling[1])
                if integer and integer.kind == "int64":
                    self.siblings[sibling[1]] = name
        # A sibling has the key of the column that it stands beside, which is the key's home.
        self.originals = {key: name for key, name in self.originals.items() if name not in self.siblings.values()}
        return self

    def home(self, key, at_top):
        """The name of the column where a key's value belongs, None where there is none."""
        if key not in self.homes:
            name = self.originals.get(key) or column_name(key, at_top)
            self.homes[key] = name if name in self.children else self.by_lower.get(name.lower())
        return self.homes[key]


class Comparison:
    """Compares the rows of one table. `differences` gathers (path, staged, landed) of the row in hand."""

    def __init__(self, root):
        self.root = root
        self.values = 0
        self.rescued_values = 0
        self.differences = []

    def row(self, staged, landed, rescued_text):
        """Compares a staged record with a landed row, a dict by column name, and the text of its rescue column."""
        self.differences = []
        rescued = {}
        if rescued_text is not None:
            try:
                rescued = parse(rescued_text)
            except ValueError:
                self._differ("rescue column", "a JSON object", rescued_text)
        self._rescued = dict(rescued)
        self._struct(self.root, staged, landed or {}, "", True)
        for pointer, value in self._rescued.items():
            self._differ(pointer, "nothing", f"rescued {_show(value)}")
        return self.differences

    def _differ(self, path, staged, landed):
        self.differences.append((path or "/", staged, landed))

    def _struct(self, column, staged, landed, path, at_top):
        filled = set()
        for key, value in staged.items():
            pointer = f"{path}/{key}" if "~" not in key and "/" not in key else f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if self._rescued and pointer in self._rescued:
                self._take_rescued(pointer, value)
                continue
            if value is None:
                continue
            name = column.home(key, at_top)
            if name is None:
                if not self._holds_below(pointer, value) and not is_empty(value):
                    self._differ(pointer, _show(value), "no column")
                continue
            if name in filled and not is_empty(value):
                self._differ(pointer, _show(value), f"column {name} has another key's value")
                continue
            if not is_empty(value):
                filled.add(name)
            child = column.children[name]
            sibling = column.siblings.get(name)
            if sibling is not None and isinstance(value, Number):
                filled.add(sibling)
                self._number_in_two_homes(child, value, landed.get(name), landed.get(sibling), pointer)
            else:
                self._value(child, value, landed.get(name), pointer)
        if len(landed) > len(filled):
            for name, value in landed.items():
                if name not in filled and not is_empty(value):
                    self._differ(f"{path}/{name}", "nothing", _show(value))

    def _holds_below(self, pointer, value):
        """A subtree without a column: each of its values must be rescued on its own."""
        below = [rescued for rescued in self._rescued if rescued.startswith(f"{pointer}/")]
        if not below or not isinstance(value, dict):
            return False
        self._struct(Column("struct"), value, {}, pointer, False)
        return True

    def _take_rescued(self, pointer, value):
        rescued = self._rescued.pop(pointer)
        self.rescued_values += 1
        self.values += count_values(value)
        if not same_json(value, rescued):
            self._differ(pointer, _show(value), f"rescued {_show(rescued)}")

    def _number_in_two_homes(self, column, staged, integer, double, pointer):
        self.values += 1
        homes = [home for home in (integer, double) if home is not None]
        if not homes or not all(self._is_scalar(column, staged, home) for home in homes):
            self._differ(pointer, _show(staged), " and ".join(map(_show, homes)) or "null")

    def _value(self, column, staged, landed, path):
        kind = column.kind
        if kind == "string":
            self._string(staged, landed, path)
        elif kind == "struct" and isinstance(staged, dict):
            self._struct(column, staged, landed or {}, path, False)
        elif kind == "list" and isinstance(staged, list):
            self._list(column, staged, landed, path)
        elif staged is None or staged == {} or staged == [] or is_empty(staged):
            if not is_empty(landed):
                self._differ(path, _show(staged), _show(landed))
        else:
            self.values += 1
            if landed is None or not self._is_scalar(column, staged, landed):
                self._differ(path, _show(staged), _show(landed))

    def _list(self, column, staged, landed, path):
        if is_empty(staged):
            if not is_empty(landed):
                self._differ(path, _show(staged), _show(landed))
        elif landed is None or len(landed) != len(staged):
            self._differ(path, _show(staged), _show(landed))
        else:
            element = column.element
            for index, (value, home) in enumerate(zip(staged, landed)):
                self._value(element, value, home, f"{path}/{index}")

    def _string(self, staged, landed, path):
        if type(staged) is str:
            self.values += 1
            if staged != landed:
                self._differ(path, _show(staged), _show(landed))
        elif is_empty(staged) and landed is None:
            return
        else:
            self.values += count_values(staged)
            try:
                same = landed is not None and same_json(staged, parse(landed))
            except ValueError:
                same = False
            if not same:
                self._differ(path, _show(staged), _show(landed))

    def _is_scalar(self, column, staged, landed):
        if column.kind == "timestamp":
            return not isinstance(staged, (bool, dict, list)) and instant(staged) == landed
        if type(staged) is str and column.declared:
            # A string that is exactly a literal of the declared type.
            if column.kind == "boolean":
                return {"true": True, "false": False}.get(staged) is landed
            if not NUMBER.fullmatch(staged):
                return False
            staged = Number(staged)
        if isinstance(staged, Number):
            return not isinstance(landed, (bool, str)) and same_number(staged, landed)
        return isinstance(staged, bool) and staged is landed


def _show(value):
    """A value as one short line."""
    if isinstance(value, Number):
        text = str(value)
    elif isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = "null" if value is None else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
