"""The reference pages that are made from the code: `manage.py write_reference` writes them.

A page is a function of the code alone, so that a test can compare it with the file.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from clusters.core.options import OPTIONS
from federation.core.spec import job_schema
from federation.intake.fate import Fate
from federation.intake.sbatch import OPTIONS as SBATCH_OPTIONS
from federation.intake.sbatch.option import Option, Takes
from federation.intake.vcjob import EVENTS, FIELDS, PLUGINS
from kit.errors import REGISTRY

APPS = ("kit", "tenancy", "clusters", "quotas", "accounting", "federation")
NOTE = "<!-- Made by `manage.py write_reference`; edit the code, not this page. -->\n"


def pages() -> dict[str, str]:
    """The text of each page by its file name below `docs/reference/`."""
    return {
        "errors.md": errors_page(),
        "job-fields.md": job_page(),
        "cluster-options.md": options_page(),
        "sbatch.md": sbatch_page(),
        "vcjob.md": vcjob_page(),
    }


def errors_page() -> str:
    """Every error code of the API, its status, and what it means."""
    for app in APPS:  # the errors are declared beside what raises them: load all
        for module in walk_packages(import_module(app).__path__, f"{app}."):
            if not module.name.endswith(".admin") and ".migrations" not in module.name:
                import_module(module.name)
    rows = [
        f"| `{kind.code}` | {kind.status} | {kind.title} | {_first(kind.__doc__)} |"
        for kind in sorted(REGISTRY.values(), key=lambda kind: (kind.status, kind.code))
        if kind.code != "error" and not kind.__module__.startswith("tests.")
    ]
    return "\n".join(
        [
            "# Error codes",
            "",
            NOTE,
            "Errors are `application/problem+json`; `code` is stable, `detail` is for people, and",
            "`errors` names every field that is wrong by a JSON pointer. A field's own `code` says",
            "what is wrong with it (`missing`, `unknown_field`, `invalid_type` and so on).",
            "",
            "| code | status | title | meaning |",
            "|---|--:|---|---|",
            *rows,
            "",
        ]
    )


def _first(text: str | None) -> str:
    """The first paragraph of a docstring as one line that fits into a table."""
    paragraph = (text or "").strip().split("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def job_page() -> str:
    """Every field of a job's body."""
    schema = job_schema()
    lines = [
        "# Fields of a job",
        "",
        NOTE,
        "The body of `POST /api/v1/jobs`. Fields in **bold** are needed. Unknown fields are errors;",
        "a field whose feature does not work yet is refused with the code `not_supported`.",
        "",
        "| field | takes | what it is |",
        "|---|---|---|",
        *_rows("", schema),
        "",
    ]
    return "\n".join(lines)


def _rows(prefix: str, schema: Mapping[str, Any]) -> Iterator[str]:
    needed = schema.get("required", ())
    for name, field in schema["properties"].items():
        path = f"{prefix}{name}"
        shown = f"**`{path}`**" if name in needed else f"`{path}`"
        yield f"| {shown} | {_takes(field)} | {field.get('description', '')} |"
        if field.get("properties"):
            yield from _rows(f"{path}.", field)
        elif "items" in field:
            for choice in field["items"].get("oneOf", ()):
                if choice.get("properties"):
                    yield from _rows(f"{path}[].", choice)


def _takes(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "oneOf" in schema:
        words = [_takes(choice) for choice in schema["oneOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    kinds = schema.get("type", "any")
    kind = next((k for k in kinds if k != "null"), "any") if isinstance(kinds, list) else kinds
    if kind == "array":
        return f"list of {_takes(schema.get('items', {}))}"
    if "minimum" in schema and "maximum" in schema:
        return f"{kind} {schema['minimum']} to {schema['maximum']}"
    if "maxLength" in schema:
        return f"{kind} of at most {schema['maxLength']} letters"
    return str(kind)


def options_page() -> str:
    """Every option of a cluster, by backend."""
    lines = [
        "# Options of a cluster",
        "",
        NOTE,
        "Set in the admin (Clusters, *options*) as a JSON object of strings. A name that ends in a",
        "dot stands for every name that begins with it.",
    ]
    for backend, options in OPTIONS.items():
        lines += ["", f"## {backend}", "", "| option | takes | what it does |", "|---|---|---|"]
        lines += [
            f"| `{name}{'*' if name.endswith('.') else ''}` | {option.form} | {option.meaning} |"
            for name, option in options.items()
        ]
    return "\n".join([*lines, ""])


_FATES: Mapping[Fate, str] = {
    Fate.MAPPED: "Mapped: a field of the job",
    Fate.CARRIED: "Carried: kept in another way, or says nothing about the job",
    Fate.DROPPED: "Dropped: the job goes without, and the answer names it",
    Fate.LATER: "Not yet: refused with `not_supported`",
    Fate.REFUSED: "Refused, with the reason",
}


def sbatch_page() -> str:
    """Every option of sbatch, by what becomes of it."""
    lines = [
        "# Options of sbatch",
        "",
        NOTE,
        "What becomes of each `#SBATCH` option when a script is sent to",
        "`POST /api/v1/jobs/intake/sbatch`: every one of Slurm 22.05 to 25.11, and Pyxis'. How to send",
        "a script: [Submit an sbatch script](../how-to/sbatch.md).",
    ]
    for fate, title in _FATES.items():
        lines += ["", f"## {title}", "", "| option | what becomes of it |", "|---|---|"]
        lines += [
            f"| {_written(option)} | {_cell(option.words)} |"
            for option in sorted(SBATCH_OPTIONS.values(), key=lambda option: option.name)
            if option.fate is fate
        ]
    return "\n".join([*lines, ""])


def _written(option: Option) -> str:
    """Both names as they are written, and which releases know them."""
    value = {Takes.NOTHING: "", Takes.VALUE: "=…", Takes.OPTIONAL: "[=…]"}[option.takes]
    short = f"`-{option.short}`, " if option.short else ""
    versions = f" ({option.versions})" if option.versions else ""
    return f"{short}`{option.long}{value}`{versions}"


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


def vcjob_page() -> str:
    """Every field of a Volcano Job by what becomes of it, then its plugins and policies."""
    lines = [
        "# Fields of a Volcano Job",
        "",
        NOTE,
        "What becomes of each field of a Volcano Job (`batch.volcano.sh/v1alpha1`) that is sent to",
        "`POST /api/v1/jobs/intake/vcjob`. A field that is not here is refused as unknown. How to send",
        "a job: [Submit a Volcano Job](../how-to/vcjob.md).",
    ]
    for fate, title in _FATES.items():
        rows = [f"| `{f.path}` | {_cell(f.words)} |" for f in FIELDS.values() if f.fate is fate]
        if rows:
            lines += ["", f"## {title}", "", "| field | what becomes of it |", "|---|---|"]
            lines += sorted(rows)
    for title, known in (("Plugins", PLUGINS), ("Events of policies", EVENTS)):
        lines += ["", f"## {title}", "", "| name | what becomes of it |", "|---|---|"]
        lines += [f"| `{name}` | {_cell(words)} |" for name, words in known.items()]
    return "\n".join([*lines, ""])
