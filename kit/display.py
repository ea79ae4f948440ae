"""Template filters: how pages write times, spans, amounts and long numbers for people."""

from datetime import UTC, datetime, timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from kit.intervals import HOUR_MS, iso
from kit.money import NANO, decimal_string
from kit.money import gpu_hours as all_gpu_hours

register = template.Library()

NONE = "\N{EN DASH}"
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(seconds: int) -> str:
    """A span in its two largest units: `3 d 4 h`, `4 min 2 s`, `0 s`; from 10 min without seconds."""
    parts: list[str] = []
    rest = abs(seconds)
    if rest >= 600:
        rest -= rest % 60
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part) or "0 s"


@register.filter
def duration(value: int | timedelta | None) -> str:
    """A span given as milliseconds or a timedelta; a dash for None."""
    if value is None:
        return NONE
    if isinstance(value, timedelta):
        return span(int(value.total_seconds()))
    return span(value // 1000)


@register.filter
def utc(moment: datetime | None) -> str:
    """`2026-11-29 20:18:03` in UTC; a dash for None."""
    return NONE if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


@register.filter
def ago(moment: datetime | None, now: datetime) -> SafeString | str:
    """How far a moment is from now, in one unit or two, with the exact UTC time as its title."""
    if moment is None:
        return NONE
    seconds = int((now - moment).total_seconds())
    words = f"in {span(-seconds)}" if seconds < 0 else f"{span(seconds)} ago"
    if abs(seconds) < 2:
        words = "just now"
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', iso(moment) or "", utc(moment), words
    )


@register.filter
def since(moment: datetime | None, now: datetime) -> SafeString | str:
    """How long it is since a moment, with the exact UTC time as its title."""
    if moment is None:
        return NONE
    words = span(max(0, int((now - moment).total_seconds())))
    return format_html(
        '<time datetime="{}" title="since {} UTC">{}</time>', iso(moment) or "", utc(moment), words
    )


@register.filter
def gpu_hours(gpu_ms: int | None) -> str:
    """GPU-milliseconds as GPU-hours with two decimals, half up."""
    if gpu_ms is None:
        return NONE
    cents = (200 * gpu_ms + HOUR_MS) // (2 * HOUR_MS)
    return f"{cents // 100:,}.{cents % 100:02d}"


@register.filter
def gpu_hours_exact(gpu_ms: int) -> str:
    """GPU-milliseconds as GPU-hours with six decimals, as the API writes them."""
    whole, _, digits = all_gpu_hours(gpu_ms).partition(".")
    return f"{int(whole):,}.{digits}"


@register.filter
def amount(nano: int | None) -> str:
    """Nano-units of money with two decimals, half up: for a glance; `amount_exact` is the truth."""
    if nano is None:
        return NONE
    cents = (abs(nano) + NANO // 200) // (NANO // 100)
    return f"{'-' if nano < 0 else ''}{cents // 100:,}.{cents % 100:02d}"


@register.filter
def amount_exact(nano: int) -> str:
    """Nano-units of money, exact: six decimals and more where they are not zero."""
    whole, _, digits = decimal_string(abs(nano)).partition(".")
    return f"{'-' if nano < 0 else ''}{int(whole):,}.{digits}"


@register.filter
def number(value: int | None) -> str:
    """A whole number with separators between thousands."""
    return NONE if value is None else f"{value:,}"


@register.filter
def percent(part: float | None) -> str:
    """A share from 0 to 1 as whole per cent."""
    return NONE if part is None else f"{round(part * 100)} %"


@register.filter
def plain(word: str) -> str:
    """A code as words: `node_failure` → `node failure`."""
    return word.replace("_", " ")


@register.filter
def tail(name: str) -> str:
    """The part of a node's name that tells it from its neighbours: what follows the last hyphen."""
    return name.rpartition("-")[2] or name
