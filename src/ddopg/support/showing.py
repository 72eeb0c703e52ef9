"""How objects show themselves: one line in a console, a small table in a notebook, both from the same facts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


def show_line(kind: str, facts: Mapping[str, Any]) -> str:
    """One line for `repr`; what is None is left out.

    Args:
        kind: the name of the class.
        facts: name → value.

    Example:
        >>> show_line("Proposal", {"number": 3, "purpose": "explore", "note": None, "value": 0.123456789})
        "Proposal(number=3, purpose='explore', value=0.123457)"
    """
    return f"{kind}({', '.join(f'{name}={_format(value)}' for name, value in _known(facts))})"


def show_table(kind: str, facts: Mapping[str, Any]) -> str:
    """The same as HTML, which notebooks show instead; names and values are escaped.

    Args:
        kind: the name of the class.
        facts: name → value.

    Example:
        >>> show_table("Proposal", {"purpose": "explore"})
        '<table><caption>Proposal</caption><tr><th>purpose</th><td>explore</td></tr></table>'
    """
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(_format(value, quoted=False))}</td></tr>"
        for name, value in _known(facts)
    )
    return f"<table><caption>{escape(kind)}</caption>{''.join(rows)}</table>"


def show_count(number: int, what: str) -> str:
    """A number of things in words.

    Args:
        number: how many.
        what: one of them.

    Example:
        >>> show_count(1, "rollout"), show_count(1200, "step")
        ('1 rollout', '1,200 steps')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class Shown:
    """An object that shows itself by its facts."""

    def _facts(self) -> Mapping[str, Any]:
        """Give name → value, what matters first; None where there is none."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return show_line(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return show_table(type(self).__name__, self._facts())


def _known(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in facts.items() if value is not None]


def _format(value: Any, quoted: bool = True) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) and not quoted else repr(value)
