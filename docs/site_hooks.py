"""Hooks of the site: files outside of docs/ that pages link to, and parts made from the package."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

import reference_parts
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebook_pages import NOTEBOOKS, notebook_page

PART = re.compile(r"<!-- made when the site is built: (\w+) -->")
OUTSIDE = re.compile(r"\]\((\.\./[^)\s#]+)\)")
PARTS = reference_parts.PARTS | {
    f"notebook_{name}": partial(notebook_page, name) for name in NOTEBOOKS
}
COPIES = "repository"  # the folder of the site for files outside of docs/


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in the parts, and copy what lies outside of docs/ to where the page then links to."""
    root = Path(config.config_file_path or "").parent
    here = dirname(page.file.src_uri)

    def copied(link: re.Match[str]) -> str:
        path = normpath(join("docs", here, link[1]))
        if path.startswith("docs/") or not (root / path).is_file():
            return link[0]  # a page of the site, or a link that is broken: MkDocs says so
        address = f"{COPIES}/{path}"
        if path.endswith(".md"):
            address += ".txt"  # else MkDocs takes it for a page of the site, too late to make it
        if address not in files.src_uris:
            files.append(File.generated(config, address, abs_src_path=str(root / path)))
        return f"]({relpath(address, here)})"

    markdown = PART.sub(lambda part: PARTS[part[1]](), markdown)
    return OUTSIDE.sub(copied, markdown)
