"""People: what is refused, what is audited, and that a password is never written down."""

from typing import Any

import pytest

from kit.errors import ConflictError, InvalidContentError
from tenancy.models import AuditEntry, User
from tenancy.services.people import create_person, set_password, update_person
from tests import make
from tests.make import NOW, PASSWORD

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"username": ""}, ["/username"]),
        ({"username": "a b"}, ["/username"]),
        ({"username": "x" * 151}, ["/username"]),
        ({"email": "nowhere"}, ["/email"]),
        ({"first_name": "a\tb"}, ["/first_name"]),
        ({"password": "short"}, ["/password"]),
        (
            {"username": "!", "last_name": "x" * 151, "email": "@"},
            ["/username", "/last_name", "/email"],
        ),
    ],
)
def test_a_person_that_cannot_be_made(changes: dict[str, Any], pointers: list[str]) -> None:
    call: dict[str, Any] = {"username": "zoe", "password": None, **changes}
    with pytest.raises(InvalidContentError) as error:
        create_person(actor=None, now=NOW, **call)
    assert [problem.pointer for problem in error.value.errors] == pointers
    assert not User.objects.exists()


def test_a_username_is_taken_in_any_case() -> None:
    make.person("mia")
    with pytest.raises(ConflictError):
        create_person(actor=None, username="Mia", password=None, now=NOW)


def test_without_a_password_nobody_signs_in_by_one() -> None:
    bot = create_person(actor=None, username="bot", password=None, now=NOW)
    assert not bot.has_usable_password()


def test_no_audit_entry_holds_a_password() -> None:
    mia = make.person()
    set_password(actor=None, user=mia, password="another long sentence", now=NOW)
    assert User.objects.get().check_password("another long sentence")
    for entry in AuditEntry.objects.all():
        text = f"{entry.before}{entry.after}{entry.why}"
        assert PASSWORD not in text
        assert "another" not in text
        assert "password" not in text


def test_an_update_says_what_changed_and_no_more() -> None:
    mia = make.person()
    update_person(actor=None, user=mia, changes={"first_name": "Mia", "email": ""}, now=NOW)
    update_person(actor=None, user=mia, changes={"first_name": "Mia"}, now=NOW)
    entry = AuditEntry.objects.get(action="update")
    assert (entry.before, entry.after) == ({"first_name": ""}, {"first_name": "Mia"})
    with pytest.raises(InvalidContentError):
        update_person(actor=None, user=mia, changes={"username": "m"}, now=NOW)


def test_the_last_admin_cannot_leave_and_the_second_last_can() -> None:
    ada = make.admin("ada")
    for changes in ({"is_admin": False}, {"is_active": False}):
        with pytest.raises(ConflictError):
            update_person(actor=ada, user=ada, changes=changes, now=NOW)
    make.admin("bob")
    left = update_person(actor=ada, user=ada, changes={"is_active": False}, now=NOW)
    assert not left.is_active
