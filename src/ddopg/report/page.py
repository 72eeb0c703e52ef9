"""The page: template, style, script and data become one file, which fetches nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

SCRIPTS = ("estimator.js", "drawing.js", "page.js")


def build_page(data: dict[str, Any]) -> str:
    """Build the whole document from its data.

    Args:
        data: what `collect_data` gives, and `command`, the command line that makes the page.

    Returns:
        HTML. What the data hold is text in it, never markup or code.
    """
    style, script = _read_asset("page.css"), "".join(map(_read_asset, SCRIPTS))
    parts = {
        "policy": build_security_policy(style, script),
        "style": style,
        "script": script,
        "data": embed_json(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read_asset("page.html"))


def embed_json(data: dict[str, Any]) -> str:
    """Write data as JSON that cannot end the HTML element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def build_security_policy(style: str, script: str) -> str:
    """Build the content security policy (CSP): the page may fetch nothing, and run no script or style but its own."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "media-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read_asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text("utf-8")
