"""What the site needs beside the pages in docs/: the pages of the root, links that leave docs/, equations as MathML.

Everything is done when the site is built, so that its pages need neither JavaScript nor a network to show a formula.
On the repository's own page the same `$…$` and `$$…$$` are shown by its host.
"""

import html
import posixpath
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(?=[)#])")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)
FOREIGN = re.compile(
    r'<(?:script|img|iframe|source)[^>]*\ssrc="https?:[^"]*"|<link[^>]*\shref="https?:[^"]*"'
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and every file outside docs/ that a page links to."""
    for source, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text()))
    for page in files.documentation_pages():
        for target in LINK.findall(page.content_string):
            path = _in_repository(page.src_uri, target)
            if (ROOT / path).is_file() and _in_site(path) == path and files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that are right in the repository into links that are right in the site."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]  # README has a wide picture and its own table of pages

    def relinked(match: re.Match[str]) -> str:
        target = _in_site(_in_repository(page.file.src_uri, match[0]))
        return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")

    return LINK.sub(relinked, markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML."""

    def rendered(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        return convert(html.unescape(match[2]).strip(), display=display)

    return FORMULA.sub(rendered, content)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that loads anything from elsewhere."""
    for path in Path(config.site_dir).rglob("*.html"):
        if found := FOREIGN.search(path.read_text()):
            raise PluginError(f"{path.name} would load something from the network: {found[0]}")


def _in_repository(uri: str, target: str) -> str:
    """Where a link of a page leads, from the root of the repository."""
    source = next((source for source, page in ROOT_PAGES.items() if page == uri), f"docs/{uri}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def _in_site(path: str) -> str:
    """Where a file of the repository stands in the site."""
    return ROOT_PAGES.get(path, path.removeprefix("docs/"))
