"""Writes on people: who may sign in, who is an admin. A password never reaches an audit entry."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from kit.errors import ConflictError, FieldProblem, InvalidContentError
from tenancy.models import User
from tenancy.services.records import write_audit

CHANGEABLE = ("first_name", "last_name", "email", "is_active", "is_admin")


def _facts(user: User) -> dict[str, Any]:
    return {
        "first_name": user.first_name,
        "last_name": user.last_name,
        "email": user.email,
        "is_active": user.is_active,
        "is_admin": user.is_superuser,
    }


def _fact_problems(facts: Mapping[str, Any]) -> list[FieldProblem]:
    problems = []
    for name in ("first_name", "last_name"):
        text = facts[name]
        if len(text) > 150 or not (text == "" or text.isprintable()):
            problems.append(
                FieldProblem(f"/{name}", "invalid_text", "Use at most 150 printable letters.")
            )
    if facts["email"]:
        try:
            validate_email(facts["email"])
        except ValidationError:
            problems.append(FieldProblem("/email", "invalid_email", "This is no e-mail address."))
    return problems


def _username_problems(username: str) -> list[FieldProblem]:
    try:
        UnicodeUsernameValidator()(username)
    except ValidationError as error:
        return [FieldProblem("/username", "invalid_name", " ".join(error.messages))]
    if len(username) > 150:
        return [FieldProblem("/username", "invalid_name", "Use at most 150 letters.")]
    return []


def _password_problems(password: str | None, user: User) -> list[FieldProblem]:
    if password is None:
        return []
    try:
        validate_password(password, user)
    except ValidationError as error:
        return [FieldProblem("/password", "weak_password", " ".join(error.messages))]
    return []


def _refuse(problems: list[FieldProblem]) -> None:
    if problems:
        raise InvalidContentError("The person's record is not valid.", errors=problems)


@transaction.atomic
def create_person(
    *,
    actor: User | None,
    username: str,
    password: str | None,
    first_name: str = "",
    last_name: str = "",
    email: str = "",
    is_admin: bool = False,
    now: datetime,
) -> User:
    """A new person. Without a password they come in by tokens only. Admins also see the admin.

    Raises:
        InvalidContentError: names every field that is wrong; the password may be too weak.
        ConflictError: the username is taken.
    """
    user = User(
        username=username,
        first_name=first_name,
        last_name=last_name,
        email=email,
        is_superuser=is_admin,
        is_staff=is_admin,
        date_joined=now,
    )
    facts = _facts(user)
    _refuse(
        [
            *_username_problems(username),
            *_fact_problems(facts),
            *_password_problems(password, user),
        ]
    )
    if User.objects.filter(username__iexact=username).exists():
        raise ConflictError(f"The username {username} is taken.", pointer="/username")
    user.set_password(password)
    user.save(force_insert=True)
    write_audit(
        actor=actor, action="create", object_type="user", object_id=username, after=facts, now=now
    )
    return user


@transaction.atomic
def update_person(
    *, actor: User | None, user: User, changes: Mapping[str, Any], now: datetime
) -> User:
    """Changes names, e-mail, whether the person may come in, whether they are an admin.

    Raises:
        InvalidContentError: a field is wrong or cannot be changed.
        ConflictError: nobody would be left who is an admin.
    """
    held = User.objects.select_for_update().get(pk=user.pk)
    before = _facts(held)
    after = {name: changes.get(name, before[name]) for name in CHANGEABLE}
    unknown = [
        FieldProblem(f"/{name}", "unknown_field", "This cannot be changed here.")
        for name in sorted(changes.keys() - after.keys())
    ]
    _refuse([*unknown, *_fact_problems(after)])
    changed = [name for name in CHANGEABLE if after[name] != before[name]]
    if not changed:
        return held
    _keep_an_admin(held, stays=after["is_admin"] and after["is_active"])
    held.first_name, held.last_name = after["first_name"], after["last_name"]
    held.email, held.is_active = after["email"], after["is_active"]
    held.is_superuser = held.is_staff = after["is_admin"]
    held.save()
    write_audit(
        actor=actor,
        action="update",
        object_type="user",
        object_id=held.username,
        before={name: before[name] for name in changed},
        after={name: after[name] for name in changed},
        now=now,
    )
    return held


def _keep_an_admin(user: User, *, stays: bool) -> None:
    """Refuses a change after which nobody could administer; locks the admins against a race."""
    if stays or not (user.is_superuser and user.is_active):
        return
    admins = User.objects.select_for_update().filter(is_superuser=True, is_active=True)
    if set(admins.values_list("pk", flat=True)) == {user.pk}:
        raise ConflictError(f"{user.username} is the last admin; make another one first.")


@transaction.atomic
def set_password(*, actor: User | None, user: User, password: str, now: datetime) -> None:
    """Gives a person another password; their other sessions end with it.

    Raises:
        InvalidContentError: the password is too weak.
    """
    held = User.objects.select_for_update().get(pk=user.pk)
    _refuse(_password_problems(password, held))
    held.set_password(password)
    held.save(update_fields=["password"])
    user.password = held.password
    write_audit(
        actor=actor,
        action="set_password",
        object_type="user",
        object_id=held.username,
        now=now,
    )
