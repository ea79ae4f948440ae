"""A small REST client of Muster's own API, one for each person of the demo."""

from typing import Any

import httpx

CALL_TIMEOUT_S = 20.0


class RefusedError(Exception):
    """The API refused; the text is its own words, with every pointer."""


class Client:
    """Calls `/api/v1` as one person."""

    def __init__(
        self, url: str, token: str, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._root = url.rstrip("/")
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=CALL_TIMEOUT_S,
            transport=transport,
            trust_env=False,
        )

    def close(self) -> None:
        """Ends its connections."""
        self._http.close()

    def _url(self, path: str) -> str:
        return f"{self._root}/api/v1{path}"

    def status(self, path: str) -> int:
        """The status of a GET, whatever it is."""
        return self._http.get(self._url(path)).status_code

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """The document there.

        Raises:
            RefusedError: anything but a success.
        """
        return self._answer(self._http.get(self._url(path), params=query))

    def items(self, path: str, **query: str | int) -> list[dict[str, Any]]:
        """Every item of a list, page by page."""
        found: list[dict[str, Any]] = []
        page = self.get(path, limit=500, **query)
        found += page["items"]
        while page["next"]:
            page = self._answer(self._http.get(f"{self._root}{page['next']}"))
            found += page["items"]
        return found

    def post(self, path: str, body: Any = None, *, key: str = "") -> tuple[dict[str, Any], bool]:
        """The answer, and whether it was a replay of an earlier one.

        Raises:
            RefusedError: anything but a success.
        """
        headers = {"Idempotency-Key": key} if key else {}
        response = self._http.post(self._url(path), json=body or {}, headers=headers)
        return self._answer(response), response.headers.get("Idempotency-Replayed") == "true"

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        if response.is_success:
            document: dict[str, Any] = response.json()
            return document
        try:
            problem = response.json()
        except ValueError:
            raise RefusedError(f"{response.url}: HTTP {response.status_code}") from None
        details = [f"{e['pointer']}: {e['detail']}" for e in problem.get("errors", ())]
        raise RefusedError("; ".join([problem.get("detail", ""), *details]))
