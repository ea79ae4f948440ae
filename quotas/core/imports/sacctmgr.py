"""Slurm's accounts: what `sacctmgr dump CLUSTER` writes, or `sacctmgr -P show assoc` prints.

An account is a tenant. The GPUs of its `GrpTRES` are a ceiling there: they are what is guaranteed
here, with nothing borrowed beyond. `Fairshare` is the weight. All else is told in notes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from quotas.core.imports.tree import Found, Owed, Unit

ROOT = "root"
NO_FAIRSHARE = 2147483647  # how an association says that it shares as its parent does
_LINE = re.compile(r"(Cluster|Parent|Account|User) - '((?:[^'\\]|\\.)*)'(?::(.*))?")
_GPU = re.compile(r"gres/gpu(?::(?P<type>[^=,]+))?")
# Of the options of accounts those that a ':' begins; in `gres/gpu:h100=8` it does not.
_OPTIONS = (
    "AdminLevel", "Classification", "Comment", "Coordinator", "DefaultAccount", "DefaultQOS",
    "DefaultWCKey", "Description", "Fairshare", "Flags", "GrpCPUMins", "GrpCPURunMins", "GrpCPUs",
    "GrpJobs", "GrpJobsAccrue", "GrpMemory", "GrpNodes", "GrpSubmitJobs", "GrpSubmit", "GrpTRES",
    "GrpTRESMins", "GrpTRESRunMins", "GrpWall", "MaxCPUMinsPerJob", "MaxCPUsPerJob", "MaxJobs",
    "MaxJobsAccrue", "MaxNodesPerJob", "MaxSubmitJobs", "MaxSubmit", "MaxTRES", "MaxTRESMins",
    "MaxTRESMinsPerJob", "MaxTRESPerJob", "MaxTRESPerNode", "MaxTRESRunMins", "MaxWall",
    "MaxWallDurationPerJob", "MinPrioThresh", "Organization", "Partition", "Priority", "QOS",
    "RawUsage", "Share", "WCKeys",
)  # fmt: skip
_SPELT = {option.lower(): option for option in _OPTIONS}
_SPLIT = re.compile(rf":(?=(?:{'|'.join(_OPTIONS)})=)", re.IGNORECASE)
_SILENT = frozenset(
    {"description", "organization", "fairshare", "share", "grptres", "rawusage", "defaultqos",
     "comment", "adminlevel", "defaultaccount", "coordinator", "classification"}
)  # fmt: skip
_SAME = {"grpsubmitjobs": "grpsubmit", "maxsubmitjobs": "maxsubmit"}


def parse_sacctmgr(text: str) -> Found:
    """The accounts of a dump, or of a table with a header line of `|`."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _parse_table(text) if "|" in first else _parse_dump(text)


def _parse_dump(text: str) -> Found:
    found, parent, users, clusters = Found(), ROOT, 0, 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            found.wrong(number, "line", "unknown_line", f"{line[:60]!r} is no line of a dump.")
            continue
        kind, name, rest = match.group(1), match.group(2).replace("\\'", "'"), match.group(3)
        if kind == "Parent":
            parent = name
        elif kind == "User":
            users += name != ROOT
        elif kind == "Cluster":
            clusters += 1
            if clusters > 1:
                found.wrong(number, "Cluster", "duplicate", "Import one cluster's dump at a time.")
        else:
            options = _options(rest or "")
            _account(found, name, None if parent == ROOT else parent, options, number)
    return _finish(found, users)


def _options(text: str) -> dict[str, str]:
    """`Fairshare=2:GrpTRES=cpu=9,gres/gpu:h100=8` by option in small letters; quotes are taken off."""
    found = {}
    for part in _SPLIT.split(f":{text}"):
        name, _, value = part.partition("=")
        if name:
            found[name.lower()] = value.strip().strip("'\"")
    return found


def _parse_table(text: str) -> Found:
    found, users, way = Found(), 0, [ROOT]
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    names = [name.strip().lower().replace(" ", "") for name in lines[0][1].split("|")]
    if "account" not in names:
        found.wrong(lines[0][0], "header", "missing", "The first line names no column Account.")
        return found
    is_told = "parname" in names or "parentname" in names
    for number, line in lines[1:]:
        cells = line.split("|")
        if len(cells) != len(names):
            words = f"It has {len(cells)} cells, not {len(names)}."
            found.wrong(number, "line", "wrong_length", words)
            continue
        row = dict(zip(names, cells, strict=True))
        account = row["account"]
        if row.get("user", "").strip():
            users += row["user"].strip() != ROOT
            continue
        depth = len(account) - len(account.lstrip(" "))  # `tree` indents the accounts
        way = [*way[: depth or 1], account.strip()]
        parent = row.get("parname", row.get("parentname", "")) if is_told else way[-2]
        if account.strip() != ROOT:
            place = None if parent.strip() in ("", ROOT) else parent.strip()
            _account(found, account.strip(), place, row, number)
    if not is_told and all(unit.parent is None for unit in found.units) and len(found.units) > 1:
        found.note("accounts", "all stand at the top: print them with `tree`, or with ParentName.")
    return _finish(found, users)


def _account(
    found: Found, name: str, parent: str | None, options: Mapping[str, str], number: int
) -> None:
    unit = Unit(name, parent, number, title=_title(options.get("description", ""), name))
    unit.weight = _weight(found, unit, options.get("fairshare", options.get("share", "")))
    for word, gpus in _gpus(found, unit, options.get("grptres", "")):
        unit.owed[word] = Owed(gpus, borrowing_limit=0)
    found.units.append(unit)
    for option, value in options.items():
        known = _SAME.get(option, option)
        if value.strip() and known not in _SILENT and known not in _PLACES:
            spelt = _SPELT.get(option, option)
            found.note(name, f"has {spelt}={value.strip()}, which no quota says.")


_PLACES = frozenset({"cluster", "account", "user", "partition", "parname", "parentname", "lineage"})


def _title(text: str, name: str) -> str:
    return "" if text.lower() == name.lower() else text[:200]


def _weight(found: Found, unit: Unit, text: str) -> Fraction:
    text = text.strip()
    if text in ("", "1"):
        return Fraction(1)
    if text.lower() == "parent" or text == str(NO_FAIRSHARE):
        found.note(unit.name, "shares as its parent does (Fairshare=parent); it gets weight 1.")
        return Fraction(1)
    if text.isascii() and text.isdigit() and len(text) < 10:
        return Fraction(int(text))
    found.wrong(unit.number, "Fairshare", "invalid_number", f"{text[:40]!r} is no share.")
    return Fraction(1)


def _gpus(found: Found, unit: Unit, text: str) -> Iterator[tuple[str, int]]:
    """GPUs by type of a `GrpTRES`. With types given, the untyped sum beside them says nothing more."""
    kinds: dict[str, int] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        tres, _, count = part.rpartition("=")
        match = _GPU.fullmatch(tres)
        if match is None:
            found.note(unit.name, f"has GrpTRES {part}: quotas here are of GPUs only.")
        elif count == "-1":
            continue  # it was lifted
        elif not (count.isascii() and count.isdigit() and len(count) < 10):
            words = f"{part[:60]!r} names no whole number of GPUs."
            found.wrong(unit.number, "GrpTRES", "invalid_number", words)
        else:
            kinds[match["type"] or "gpu"] = int(count)
    typed = [kind for kind in kinds if kind != "gpu"]
    if typed and "gpu" in kinds:
        whole = kinds.pop("gpu")
        if whole < sum(kinds.values()):
            found.note(unit.name, f"has gres/gpu={whole} over its types; each type counts alone.")
    yield from kinds.items()


def _finish(found: Found, users: int) -> Found:
    if users:
        found.note(
            "users", f"{users} associations of users: give people roles, and accounts there."
        )
    if not found.units and not found.problems:
        found.wrong(0, "", "empty", "There is no account in it.")
    _tell_unlimited(found.units, found)
    return found


def _tell_unlimited(units: Sequence[Unit], found: Found) -> None:
    """In Slurm no limit is everything; here no row, on itself or above, is nothing."""
    by_name = {unit.name: unit for unit in units}
    for unit in units:
        at: Unit | None = unit
        seen = 0
        while at is not None and not at.owed and seen <= len(units):
            at, seen = by_name.get(at.parent or ""), seen + 1
        if at is None:
            words = "has no GPUs in GrpTRES, nor has any above: without a row nothing starts here."
            found.note(unit.name, words)
