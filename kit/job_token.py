"""The token with which a job proves its checkpoints: signed, made from its fence, stored nowhere.

A fence names one attempt for ever, so the token is that attempt's. Whether the attempt still runs is
for the service to say. It is as good as `SECRET_KEY`: with another key all of them are void.
"""

from django.core.signing import BadSignature, Signer

PREFIX = "mjt_"


def _signer() -> Signer:
    return Signer(salt="muster.job-token", sep=".")


def job_token(fence: str) -> str:
    """The token of the attempt with this fence."""
    return PREFIX + _signer().sign(fence)


def fence_of(token: str) -> str | None:
    """The fence whose token it is; None when it is nobody's."""
    if not token.startswith(PREFIX):
        return None
    try:
        return _signer().unsign(token.removeprefix(PREFIX))
    except BadSignature:
        return None
