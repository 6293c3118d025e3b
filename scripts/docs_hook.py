"""Hook of mkdocs.yml: adapts pages from GitHub's Markdown to Python-Markdown.

- A list may follow a paragraph without a blank line.
- `docs/FOLDER/PAGE.md` in backticks becomes a link, which `mkdocs build --strict` then checks.
- A search index as a script, since browsers refuse to fetch a JSON file from disk.
"""

import pathlib
import posixpath
import re


def on_page_markdown(markdown, page, **_):
    folder = posixpath.dirname(page.file.src_uri)

    def link(match):
        return f"[`{match[1]}`]({posixpath.relpath(match[2], folder or '.')})"

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith("    "):
            line = re.sub(r"(?<!\[)`(docs/([\w./-]+\.md))`", link, line)
            if re.match(r"([-*]|\d+\.) ", line) and lines and lines[-1] and not re.match(
                    r"([-*]|\d+\.) |\s|#", lines[-1]):
                lines.append("")
        lines.append(line)
    return "\n".join(lines)


def on_post_build(config, **_):
    search = pathlib.Path(config["site_dir"]) / "search"
    index = (search / "search_index.json").read_text(encoding="utf-8")
    (search / "search_index.js").write_text(f"var search_index = {index};\n", encoding="utf-8")
