"""For the API page: the fields of a record as one table, with what the source says of each.

A field is described by the string below it or by the comment behind it.
"""

import re
from typing import Any

import griffe

COMMENT = re.compile(r"#\s*(?:noqa: \w+\s*)?(.+?)\s*$")


class RecordFields(griffe.Extension):
    """Turns the fields of NamedTuples and dataclasses into an `Attributes` section of the class."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Called when griffe has read a whole class."""
        if cls.docstring is None or not _is_record(cls):
            return
        lines = [*cls.docstring.value.splitlines(), "", "Attributes:"]
        fields = [field for field in cls.attributes.values() if "property" not in field.labels]
        for field in fields:
            lines.append(f"    {field.name}: {_said_of(field) or f'see `{field.annotation}`'}")
            field.docstring = None
        if fields:
            cls.docstring.value = "\n".join(lines)


def _is_record(cls: griffe.Class) -> bool:
    names = [str(base) for base in cls.bases] + [str(decorator.value) for decorator in cls.decorators]
    return any(name.startswith(("NamedTuple", "dataclass")) for name in names)


def _said_of(field: griffe.Attribute) -> str:
    if field.docstring is not None:
        return " ".join(field.docstring.value.split())
    source = field.filepath.read_text().splitlines()  # type: ignore[union-attr]
    found = COMMENT.search(source[(field.endlineno or 1) - 1])
    return found[1] if found else ""
