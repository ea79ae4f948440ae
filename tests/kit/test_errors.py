"""The family of errors: one code each, fields with pointers, and the document people get."""

import pytest

from kit.errors import REGISTRY, FieldProblem, InvalidContentError, MusterError, ThrottledError
from kit.problem import problem, problem_headers


def test_codes_are_snake_case_and_statuses_are_errors() -> None:
    for code, kind in REGISTRY.items():
        assert code == code.lower()
        assert code.replace("_", "").isalnum()
        assert kind.status == 412 or 400 <= kind.status < 600
        assert kind.title
        assert kind.__doc__


def test_a_code_is_declared_once() -> None:
    with pytest.raises(TypeError, match="declared twice"):
        type("Again", (MusterError,), {"code": "not_found", "status": 404, "title": "x"})


def test_the_document_names_every_field() -> None:
    error = InvalidContentError(
        "Two things.", errors=[FieldProblem("/a", "missing", "A."), FieldProblem("/b/0", "x", "B.")]
    )
    assert problem(error) == {
        "type": "/api/v1/problems/invalid_content",
        "title": "The content is not valid",
        "status": 422,
        "detail": "Two things.",
        "code": "invalid_content",
        "errors": [
            {"pointer": "/a", "code": "missing", "detail": "A."},
            {"pointer": "/b/0", "code": "x", "detail": "B."},
        ],
    }


def test_a_pointer_alone_makes_the_one_field() -> None:
    error = InvalidContentError("Wrong.", pointer="/role")
    assert error.errors == (FieldProblem("/role", "invalid_content", "Wrong."),)


def test_what_may_be_tried_later_says_when() -> None:
    assert problem_headers(ThrottledError("Slow.", retry_after_s=7)) == {"Retry-After": "7"}
