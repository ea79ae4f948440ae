"""What each verb does: one function a verb, each answers or raises ApiError."""

from collections.abc import Callable

from simulator.kubernetes import errors, patches, pods
from simulator.kubernetes.calls import Admission, Answer, Call, Review, answer
from simulator.kubernetes.checks import check_metadata, fitting, open_namespace
from simulator.kubernetes.deletion import Wish, delete, finalized
from simulator.kubernetes.errors import ApiError, Json, bad_request, success
from simulator.kubernetes.lists import chosen, list_things
from simulator.kubernetes.objects import is_going, key_of, with_meta
from simulator.kubernetes.resources import BY_PLURAL
from simulator.kubernetes.store import Store

_OWN_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "namespace",
    "name",
)
_MERGES = {"application/merge-patch+json", "application/strategic-merge-patch+json"}


class Api:
    """The API over a store, with the webhooks of whoever is installed."""

    def __init__(self, store: Store, admission: Admission) -> None:
        """Serve this store."""
        self.store = store
        self.admission = admission
        self._verbs: dict[str, Callable[[Call], Answer]] = {
            "get": self._get,
            "list": lambda call: list_things(store, call),
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_all,
        }
        self._special: dict[tuple[str, str], Callable[[Call], Answer]] = {
            ("binding", "create"): lambda call: pods.bind(store, call),
            ("eviction", "create"): lambda call: pods.evict(store, call),
            ("log", "get"): lambda call: pods.log(store, call),
        }

    def act(self, call: Call) -> Answer:
        """Do what is asked; ApiError is a refusal. Watches are not answered here."""
        if call.target.subresource in {"", "status"}:
            handler = self._verbs.get(call.verb)
        else:
            handler = self._special.get((call.target.subresource, call.verb))
        if handler is None:
            raise ApiError(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
                details={},
            )
        return handler(call)

    def make(self, thing: Json, plural: str, now_ms: int) -> Json:
        """Create an object as a call would, with admission; for controllers in the process."""
        resource = BY_PLURAL[plural]
        check_metadata(resource, thing)
        if resource.plural == "pods":
            thing = pods.admitted(self.store, thing)
        return self.store.create(resource, thing, now_ms)

    def _get(self, call: Call) -> Answer:
        target = call.target
        return answer(self.store.get(target.resource, (target.namespace, target.name)))

    def _create(self, call: Call) -> Answer:
        target = call.target
        if target.name:
            raise bad_request("an object is made in its collection")
        thing = fitting(target, call.decoded())
        meta = thing["metadata"]
        open_namespace(self.store, target, meta.get("name") or meta.get("generateName", ""))
        if target.resource.status:
            thing = {key: value for key, value in thing.items() if key != "status"}
        check_metadata(target.resource, thing)
        # A generated name is there before webhooks see the object.
        thing = self.store.named(target.resource, thing, call.now_ms)
        thing = self._admit(call, thing, None)
        if target.resource.plural == "pods":
            thing = pods.admitted(self.store, thing)
        if call.dry:
            self._check_free(call, thing)
            return answer(thing, 201)
        return answer(self.store.create(target.resource, thing, call.now_ms), 201)

    def _check_free(self, call: Call, thing: Json) -> None:
        known = self.store.items[call.target.resource].get(key_of(thing))
        if known is not None:
            raise errors.already_exists(
                call.target.resource, key_of(thing)[1], going=is_going(known)
            )

    def _admit(self, call: Call, new: Json | None, old: Json | None) -> Json:
        target = call.target
        review = Review(call.verb, target.resource, target.subresource, new, old, self.store)
        return self.admission(review) or {}

    def _update(self, call: Call) -> Answer:
        target = call.target
        old = self.store.get(target.resource, (target.namespace, target.name))
        return self._keep(call, old, fitting(target, call.decoded()))

    def _patch(self, call: Call) -> Answer:
        target = call.target
        old = self.store.get(target.resource, (target.namespace, target.name))
        body, kind = call.decoded(), call.content_type.partition(";")[0].strip()
        if kind in _MERGES:
            return self._keep(call, old, fitting(target, patches.merge(old, body)))
        if kind != "application/json-patch+json":
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json",
            )
        try:
            new = patches.apply(old, body)
        except patches.PatchError as error:
            raise errors.invalid(target.resource, target.name, [str(error)]) from None
        return self._keep(call, old, fitting(target, new))

    def _keep(self, call: Call, old: Json, new: Json) -> Answer:
        """The object in its new state: only what this path may change changes."""
        target, meta = call.target, new["metadata"]
        version = meta.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise errors.conflict(target.resource, target.name)
        if meta.get("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL "
                f"({target.name})"
            )
        if meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
            raise errors.conflict(target.resource, target.name, why + old["metadata"]["uid"])
        own = {name: old["metadata"].get(name) for name in _OWN_FIELDS}
        own["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = _part(with_meta(new, **own), old, call)
        check_metadata(target.resource, new)
        new = self._admit(call, new, old)
        if call.dry:
            return answer(new)
        kept = self.store.update(target.resource, new)
        finalized(self.store, target.resource, kept)
        return answer(kept)

    def _wish(self, call: Call) -> Wish:
        options = call.decoded() or {}
        if not isinstance(options, dict):
            raise bad_request("DeleteOptions must be an object")
        query = call.query
        grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        return Wish(
            None if grace is None else int(grace),
            (options.get("preconditions") or {}).get("uid") or "",
            options.get("propagationPolicy") or query.get("propagationPolicy") or "Background",
        )

    def _delete(self, call: Call) -> Answer:
        target = call.target
        key = (target.namespace, target.name)
        old = self.store.get(target.resource, key)
        self._admit(call, None, old)
        details = errors.details_of(target.resource, target.name)
        details["uid"] = old["metadata"]["uid"]
        wish = self._wish(call)
        if call.dry:
            return answer(old)
        left = delete(self.store, target.resource, key, wish, call.now_ms)
        if left is not None:
            return answer(left)
        # A pod that goes at once is answered with as it was.
        return answer(old if target.resource.plural == "pods" else success(details))

    def _delete_all(self, call: Call) -> Answer:
        target, wish, wanted = call.target, self._wish(call), chosen(call)
        for thing in list(self.store.all(target.resource)):
            if all(fits(thing) for fits in wanted) and not call.dry:
                delete(self.store, target.resource, key_of(thing), wish, call.now_ms)
        return answer(success())


def _part(new: Json, old: Json, call: Call) -> Json:
    """The status subresource changes only `status`, the main resource everything else."""
    if call.target.subresource == "status":
        return {**old, "status": new.get("status") or {}}
    if not call.target.resource.status:
        return new
    kept = {key: value for key, value in new.items() if key != "status"}
    return {**kept, "status": old["status"]} if "status" in old else kept
