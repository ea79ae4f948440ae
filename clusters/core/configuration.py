"""What an admin may configure about a cluster: the rules, each with words that say the fix.

The options of a backend have a table of their own: `clusters.core.options`.
"""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from kit.errors import FieldProblem

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
# A GPU's name on a cluster: a GRES type (Slurm), or a resource with perhaps a model (Kubernetes).
DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./:-]{0,251}[A-Za-z0-9_])?")
RUN_AS = re.compile(r"[1-9][0-9]{0,8}(:[1-9][0-9]{0,8})?")
STORE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,62}")  # as in a job's `requires`
LARGEST_FACT = 1_000_000  # GB or teraflops of one GPU; more is a slip of the keyboard
NOT_A_PERSON = frozenset({"root", "default"})
_SYSTEM = "kube-"  # namespaces that Kubernetes keeps for itself
RESERVED = frozenset({"probe"})  # `POST /clusters/probe` is no cluster
MOST_CALLS_AT_ONCE = 64
MOST_CALLS_PER_S = 10_000


def name_problems(pointer: str, name: object) -> Iterator[FieldProblem]:
    """A name of ours: 1 to 63 of a-z, 0-9 and inner hyphens."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield FieldProblem(
            pointer, "invalid_name", "Use 1 to 63 of a-z, 0-9 and -, not at either end -."
        )


def cluster_name_problems(pointer: str, name: object) -> Iterator[FieldProblem]:
    """The name of a cluster: a name of ours that no address uses already."""
    yield from name_problems(pointer, name)
    if name in RESERVED:
        yield FieldProblem(pointer, "invalid_name", f"{name} is kept for an address; take another.")


def word_problems(
    pointer: str, word: object, pattern: re.Pattern[str] = WORD, *, may_be_empty: bool = False
) -> Iterator[FieldProblem]:
    """A name of somebody else's (GRES type, partition, account): one plain word."""
    if may_be_empty and word == "":
        return
    if not isinstance(word, str) or not pattern.fullmatch(word):
        yield FieldProblem(
            pointer, "invalid_name", "Use 1 to 63 letters, digits, '_', '.' and '-', no blanks."
        )


def text_problems(pointer: str, text: object, longest: int) -> Iterator[FieldProblem]:
    """One line of printable text."""
    if not isinstance(text, str) or len(text) > longest or not (text == "" or text.isprintable()):
        yield FieldProblem(pointer, "invalid_text", f"Use at most {longest} printable letters.")


def endpoint_problems(pointer: str, endpoint: object) -> Iterator[FieldProblem]:
    """Where the cluster answers: `http(s)://host[:port][/path]` without credentials in it."""
    fix = "Give an address like https://slurm.example:6820, without user, password, ? or #."
    try:
        parts = urlsplit(endpoint) if isinstance(endpoint, str) else urlsplit("")
        is_fine = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not (parts.username or parts.password or parts.query or parts.fragment)
        )
    except ValueError:  # a port that is no number, a broken IPv6 address
        is_fine = False
    text = str(endpoint)
    if not is_fine or len(text) > 500 or not text.isprintable() or " " in text:
        yield FieldProblem(pointer, "invalid_endpoint", fix)


def store_problems(pointer: str, stores: object) -> Iterator[FieldProblem]:
    """The stores and datasets a cluster sees, each once."""
    if not isinstance(stores, Sequence) or isinstance(stores, str):
        yield FieldProblem(pointer, "invalid_type", "Give a list of names.")
        return
    for index, store in enumerate(stores):
        if not isinstance(store, str) or not STORE.fullmatch(store):
            yield FieldProblem(
                f"{pointer}/{index}",
                "invalid_name",
                "Use 1 to 63 letters, digits and . _ : / -, beginning with a letter or digit.",
            )
        elif store in stores[:index]:
            yield FieldProblem(f"{pointer}/{index}", "duplicate", f"{store} stands twice.")


def device_problems(pointer: str, device: object, backend: str) -> Iterator[FieldProblem]:
    """A GPU's name on a cluster of that backend."""
    if backend == "slurm":
        yield from word_problems(pointer, device)
    elif not isinstance(device, str) or not DEVICE.fullmatch(device):
        fix = "Give the resource, and after a colon the model, as in nvidia.com/gpu:NVIDIA-H100."
        yield FieldProblem(pointer, "invalid_name", fix)


def person_account_problems(pointer: str, account: object, backend: str) -> Iterator[FieldProblem]:
    """What a person's jobs run as: a UNIX account, never root, or a namespace, never the system's."""
    if backend == "slurm":
        yield from word_problems(pointer, account, ACCOUNT)
    else:
        yield from name_problems(pointer, account)
    if account in NOT_A_PERSON or str(account).startswith(_SYSTEM):
        yield FieldProblem(pointer, "invalid_account", f"Jobs never run as {account}.")


def run_as_problems(pointer: str, numbers: object, backend: str) -> Iterator[FieldProblem]:
    """User and group numbers of a person's containers, never 0; empty = the image's own."""
    if numbers == "":
        return
    if backend == "slurm":
        yield FieldProblem(
            pointer, "invalid_run_as", "Slurm runs jobs as their account; leave it out."
        )
    elif not isinstance(numbers, str) or not RUN_AS.fullmatch(numbers):
        words = "Give the number of a user, or of user and group, as in 2001:3000; never 0."
        yield FieldProblem(pointer, "invalid_run_as", words)


def home_problems(pointer: str, home: object) -> Iterator[FieldProblem]:
    """A home directory there: an absolute path, or empty for the cluster's own default."""
    yield from text_problems(pointer, home, 500)
    if isinstance(home, str) and home and not home.startswith("/"):
        yield FieldProblem(pointer, "invalid_path", "Give an absolute path, or nothing.")


def whole_problems(pointer: str, number: object, highest: int) -> Iterator[FieldProblem]:
    """A whole number from 0."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= highest:
        yield FieldProblem(pointer, "invalid_number", f"Give a whole number from 0 to {highest}.")


def limit_problems(pointer: str, limit: object, highest: int) -> Iterator[FieldProblem]:
    """A limit on calls: a whole number from 1, or nothing for the setting that holds for all."""
    is_whole = isinstance(limit, int) and not isinstance(limit, bool)
    if limit is not None and not (is_whole and 1 <= limit <= highest):  # type: ignore[operator]
        yield FieldProblem(
            pointer, "invalid_number", f"Give a whole number from 1 to {highest}, or null."
        )
