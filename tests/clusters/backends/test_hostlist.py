import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.backends.slurm.hostlist import compress, expand

NUMBERS = st.one_of(
    st.just(""), st.integers(0, 200).map(str), st.integers(0, 200).map("{:03d}".format)
)
NAMES = st.tuples(st.sampled_from(["n", "alpha-n", "r1-x", "gpu7a"]), NUMBERS).map("".join)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("alpha-n[000-003,007]", "alpha-n000 alpha-n001 alpha-n002 alpha-n003 alpha-n007"),
        ("r[0-1]n[8-10]", "r0n8 r0n9 r0n10 r1n8 r1n9 r1n10"),
        ("a,b[2],c", "a b2 c"),
        ("n[1,3[5-6]]", "n1 n35 n36"),
        ("a[01-02]x", "a01x a02x"),
        ("a,a", "a a"),
        (None, ""),
        ("", ""),
        ("None assigned", ""),
        ("(null)", ""),
    ],
)
def test_expands(text: str | None, names: str) -> None:
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize("text", ["a[", "a]", "a[3-1]", "a[0-9999999]", "a[0-999]b[0-999]c[0-9]"])
def test_refuses_what_is_no_host_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"unbalanced|bad range|more than"):
        expand(text)


def test_compresses_by_width() -> None:
    assert compress(["n9", "n10", "n11", "n010"]) == "n9,n[10-11],n010"
    with pytest.raises(ValueError, match="not a host name"):
        compress(["n[1-2]"])


@settings(deadline=None)
@given(st.lists(NAMES, unique=True, max_size=40))
def test_compressing_loses_no_name_and_invents_none(names: list[str]) -> None:
    assert sorted(expand(compress(names))) == sorted(names)


@settings(deadline=None)
@given(st.text(alphabet="ab[]-,019", max_size=20))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert all(name and not set("[],") & set(name) for name in names)
