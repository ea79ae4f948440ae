"""Options that become one field of the job each, or an environment variable, or nothing."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from federation.core.spec.kinds import token
from federation.core.spec.quantities import write_moment
from federation.intake.fate import Fate
from federation.intake.findings import Findings
from federation.intake.sbatch.arguments import Given
from federation.intake.sbatch.quantities import (
    read_exports,
    read_moment,
    read_signal,
    read_time_s,
)
from kit.intervals import to_ms

Body = dict[str, Any]
_OFF_IS_FINE: Final = {"no-kill": "off"}
_OPPOSITES: Final = (("requeue", "no-requeue"), ("exclusive", "oversubscribe"))
_SIGNALS: Final = ("USR1", "USR2", "TERM", "INT", "HUP", "CONT")
_NAME_PATTERN = re.compile(r"%x")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_SWITCHES = re.compile(r"([0-9]{1,6})(?:@(.+))?")
_CLUSTERS = re.compile(r"[^,\s]+")
# Muster sets them for every job, so that exporting the caller's own means nothing.
_ALWAYS_SET = frozenset({"ALL", "NONE", "NIL", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD"})


def set_fields(given: Mapping[str, Given], body: Body, now: datetime, findings: Findings) -> None:
    """Fills the body from every option that is not about the gang's shape, tenant or flavors.

    Variables that carry an option come first, so that `--export` may set them otherwise.
    """
    given = _without_overruled(given, findings)
    for name, one in given.items():
        _dispose(name, one, body, findings)
    for name, setter in _SETTERS.items():
        if name in given:
            setter(given[name], body, findings)
    if "begin" in given:
        _begin(given["begin"], body, now, findings)
    if "time" not in given:
        detail = (
            "It has no time limit, and every job needs one. "
            f"Add a line such as #SBATCH --time=24:00:00.{findings.ignored()}"
        )
        findings.refuse(1, "no_time_limit", "--time", detail)


def _without_overruled(given: Mapping[str, Given], findings: Findings) -> dict[str, Given]:
    """Of two options that say the opposite the later counts, as in Slurm."""
    left = dict(given)
    for pair in _OPPOSITES:
        if all(name in left for name in pair):
            first, last = sorted((left[name] for name in pair), key=lambda one: one.line)
            detail = f"It overrules line {first.line}, {first.option.long}."
            findings.warn(last.line, "repeated", last.option.long, detail)
            del left[first.option.name]
    return left


def _dispose(name: str, one: Given, body: Body, findings: Findings) -> None:
    """What the table alone says: carried by a variable, dropped, refused."""
    option = one.option
    if option.fate is Fate.DROPPED:
        findings.drop(one.line, option.long, option.words.replace("`", ""))
    elif option.fate in (Fate.LATER, Fate.REFUSED) or _is_on(name, one):
        code = "not_supported" if option.fate is Fate.LATER else "refused"
        findings.refuse(one.line, code, option.long, option.words.replace("`", ""))
    elif option.variable:
        body.setdefault("environment", {})[option.variable] = one.text or "1"
        findings.origins[f"/environment/{option.variable}"] = one.line


def _is_on(name: str, one: Given) -> bool:
    """An option that is taken only where it is switched off."""
    return name in _OFF_IS_FINE and one.text != _OFF_IS_FINE[name]


def _invalid(one: Given, form: str, findings: Findings) -> None:
    detail = f"{form}, not {one.text[:60]!r}."
    findings.refuse(one.line, "invalid_value", one.option.long, detail)


def _put(one: Given, body: Body, pointer: str, value: object, findings: Findings) -> None:
    """A value at a field of the body, and the line that it came from."""
    *above, name = pointer[1:].split("/")
    place = body
    for part in above:
        place = place.setdefault(part, {})
    place[name] = value
    findings.origins[pointer] = one.line
    if above:
        findings.origins.setdefault(f"/{above[0]}", one.line)


def _text(pointer: str) -> Callable[[Given, Body, Findings], None]:
    def put(one: Given, body: Body, findings: Findings) -> None:
        _put(one, body, pointer, one.text, findings)

    return put


def _path(pointer: str) -> Callable[[Given, Body, Findings], None]:
    """A path of output; `%x`, the job's name, is filled in: in Slurm the job has another."""

    def put(one: Given, body: Body, findings: Findings) -> None:
        name = body.get("name", "")
        path = one.text
        if "%x" in path and _PLAIN_NAME.fullmatch(name):
            path = _NAME_PATTERN.sub(name, path)
        elif "%x" in path:
            detail = "%x is the attempt's name in Slurm here, not the job's."
            findings.warn(one.line, "name_pattern", one.option.long, detail)
        _put(one, body, pointer, path, findings)

    return put


def _workdir(one: Given, body: Body, findings: Findings) -> None:
    if one.text.startswith("/"):
        _put(one, body, "/run/workdir", one.text, findings)
    else:
        _invalid(one, "Give an absolute path: Muster is called from nowhere", findings)


def _time(one: Given, body: Body, findings: Findings) -> None:
    seconds = read_time_s(one.text)
    if seconds is None:
        form = "Give minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S"
        _invalid(one, form, findings)
    elif not seconds:
        detail = "A job without an end is not taken. Give a limit such as 24:00:00."
        findings.refuse(one.line, "no_time_limit", one.option.long, detail)
    else:
        _put(one, body, "/time_limit", seconds, findings)


def _signal(one: Given, body: Body, findings: Findings) -> None:
    signal = read_signal(one.text)
    if signal is None or signal.name not in _SIGNALS:
        _invalid(one, f"Give one of {', '.join(_SIGNALS)}, as in USR1@120", findings)
        return
    if "R" in signal.flags:
        detail = "R: belongs to reservations of one cluster. Leave it out."
        findings.refuse(one.line, "refused", one.option.long, detail)
        return
    if "B" in signal.flags:
        detail = (
            "B: asks to signal the batch shell only. Muster signals the shell and every process "
            "that srun started, so those must not die of it."
        )
        findings.warn(one.line, "signal_scope", one.option.long, detail)
    _put(one, body, "/checkpoint/signal", signal.name, findings)
    _put(one, body, "/checkpoint/grace", signal.before_s, findings)


def _switches(one: Given, body: Body, findings: Findings) -> None:
    match = _SWITCHES.fullmatch(one.text)
    if match is None or (match[2] and read_time_s(match[2]) is None):
        _invalid(one, "Give a number of switches, as in 1 or 1@60", findings)
        return
    if match[1] not in ("0", "1"):
        detail = "Muster counts no switches: it takes the closest nodes that it can get."
        findings.warn(one.line, "switches_not_counted", one.option.long, detail)
    if match[1] != "0":
        _put(one, body, "/topology/preferred", "leaf", findings)


def _exclusive(one: Given, body: Body, findings: Findings) -> None:
    if one.text:
        detail = f"={one.text[:60]} is not supported. Write --exclusive for whole nodes."
        findings.refuse(one.line, "not_supported", one.option.long, detail)
    else:
        _put(one, body, "/gang/exclusive", True, findings)


def _requeue(one: Given, _: Body, findings: Findings) -> None:
    if one.text:
        detail = f"={one.text[:60]} is not supported. Write --requeue."
        findings.refuse(one.line, "not_supported", one.option.long, detail)


def _no_requeue(one: Given, body: Body, findings: Findings) -> None:
    _put(one, body, "/gang/max_restarts", 0, findings)


def _export(one: Given, body: Body, findings: Findings) -> None:
    for name, value in read_exports(one.text):
        if value is not None:
            body.setdefault("environment", {})[name] = value
            findings.origins["/environment"] = one.line
            findings.origins[f"/environment/{token(name)}"] = one.line
        elif name and name not in _ALWAYS_SET:
            detail = f"The caller's {name[:60]} does not travel. Give its value, as in NAME=value; a value with a comma needs quotes within quotes."
            findings.refuse(one.line, "no_value", one.option.long, detail)


def _clusters(one: Given, body: Body, findings: Findings) -> None:
    names = list(dict.fromkeys(_CLUSTERS.findall(one.text)))
    if names != ["all"]:
        _put(one, body, "/clusters/only", names, findings)


def _begin(one: Given, body: Body, now: datetime, findings: Findings) -> None:
    moment = read_moment(one.text, now)
    if moment is None:
        form = "Give now+2hours, or a date and time such as 2027-01-31T08:00"
        _invalid(one, form, findings)
        return
    if not one.text.startswith("now"):
        detail = "The time is taken as UTC; sbatch takes it in the cluster's own zone."
        findings.warn(one.line, "utc_assumed", one.option.long, detail)
    if one.text != "now":
        _put(one, body, "/not_before", write_moment(to_ms(moment)), findings)


# In order: the name goes before the paths that hold it.
_SETTERS: Final[Mapping[str, Callable[[Given, Body, Findings], None]]] = {
    "job-name": _text("/name"),
    "time": _time,
    "output": _path("/run/output"),
    "error": _path("/run/error"),
    "chdir": _workdir,
    "signal": _signal,
    "switches": _switches,
    "exclusive": _exclusive,
    "requeue": _requeue,
    "no-requeue": _no_requeue,
    "export": _export,
    "comment": _text("/labels/comment"),
    "wckey": _text("/labels/wckey"),
    "clusters": _clusters,
}
