"""The files of the pages: modules as they are served, and as one script for a page or a notebook.

The modules are plain ES modules. The page lists all of them, so that the browser requests them at
the same time. They use two forms of import and export, one to a line:
`import { a, b } from "./name.js";`, and `export` before `function`, `async function`, `const` or
`class`. To make one script, each module becomes a function that returns its exports. The charts are
those of the reports: scripts without exports, which are added here.
"""

import re
from functools import lru_cache
from importlib.resources import files

CHARTS = "charts.js"
CHART_EXPORTS = "mountChart, drawChart, formatNumber, makeScale, makeTicks"
_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (async function|function|const|class) (\w+)", re.MULTILINE)
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


@lru_cache(maxsize=1)
def static_files() -> dict[str, tuple[str, str]]:
    """Name -> (media type, text) of every file that is served."""
    folder, report = files("capax.lab") / "static", files("capax.report") / "assets"
    found = {item.name: item.read_text(encoding="utf-8") for item in folder.iterdir()}
    parts = [(report / name).read_text(encoding="utf-8") for name in _CHART_SCRIPTS]
    found[CHARTS] = "\n".join([*parts, f"export {{ {CHART_EXPORTS} }};\n"])
    found["page.css"] = (report / "page.css").read_text(encoding="utf-8")
    links = [
        f'<link rel="modulepreload" href="/static/{name}">' for name in _modules("main.js", found)
    ]
    found["lab.html"] = found["lab.html"].replace("</head>", "\n".join([*links, "</head>"]))
    kinds = {name: _TYPES.get("." + name.rpartition(".")[2], "text/plain") for name in found}
    return {name: (f"{kinds[name]}; charset=utf-8", text) for name, text in found.items()}


_CHART_SCRIPTS = ("scale.js", "chart.js", "pointer.js")


def one_script(entry: str) -> str:
    """The module `entry` and its imports as one script.

    The exports of `entry` are in the constant `lab`.
    """
    texts = {name: text for name, (_, text) in static_files().items()}
    parts = [_function_of(name) for name in _modules(entry, texts)]
    return "\n".join([*parts, f"const lab = {_variable(entry)};"])


def _modules(entry: str, texts: dict[str, str]) -> list[str]:
    """The module `entry` and all its imports, each module after its own imports."""
    order: list[str] = []

    def visit(name: str) -> None:
        for _, other in _IMPORT.findall(texts[name]):
            if other not in order:
                visit(other)
        order.append(name)

    visit(entry)
    return list(dict.fromkeys(order))


def _function_of(name: str) -> str:
    """One module as `const m_name = (() => { ...; return { exports }; })();`."""
    text = static_files()[name][1]
    exports = ", ".join(found[1] for found in _EXPORT.findall(text))
    if name == CHARTS:
        exports = CHART_EXPORTS
        text = text.replace(f"export {{ {CHART_EXPORTS} }};", "")
    text = _IMPORT.sub(
        lambda m: f"const {{ {m[1].replace(' as ', ': ')} }} = {_variable(m[2])};", text
    )
    text = _EXPORT.sub(r"\1 \2", text)
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE), f"{name}: another import"
    return f"const {_variable(name)} = (() => {{\n{text}\nreturn {{ {exports} }};\n}})();"


def _variable(name: str) -> str:
    return "m_" + re.sub(r"\W", "_", name.removesuffix(".js"))
