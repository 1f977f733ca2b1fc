"""The base of every specification: frozen, no unknown fields, errors in one line."""

import difflib
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer

from capax.errors import InputError, shown
from capax.foreign import one_line as shortened


class Spec(BaseModel):
    """A frozen pydantic model whose constructor raises a one-line `InputError`.

    `InputError` is a `ValueError`, so that a spec inside another spec reports the same way.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(one_line(error, type(self), fields)) from None


class GrownSpec(Spec):
    """A spec with fields added later, which a dump leaves out while they have their defaults.

    The hash of a dump is the identity of a run, so results from before a field existed keep their
    identity.
    """

    later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, dump: Any) -> dict[str, Any]:
        fields, known = dump(self), type(self).model_fields
        same = {name for name in self.later if getattr(self, name) == known[name].default}
        return {name: value for name, value in fields.items() if name not in same}


def one_line(error: ValidationError, model: type[BaseModel], fields: dict[str, Any]) -> str:
    """The first error as `field: wanted value, got value`, with the nearest valid name."""
    complaints = error.errors(include_url=False)
    first = complaints[0]
    name = _path(first["loc"], fields) or model.__name__
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return str(cause)
    if first["type"] == "extra_forbidden":
        return f"{name}: unknown field of {model.__name__}{_nearest(name, model)}"
    if first["type"] == "missing":
        return f"{name}: missing field of {model.__name__}"
    same_field = [
        c["msg"].removeprefix("Value error, ")
        for c in complaints
        if (_path(c["loc"], fields) or model.__name__) == name
    ]
    wanted = " or ".join(message[:1].lower() + message[1:] for message in same_field)
    return " ".join(f"{name}: {wanted}, got {shown(first['input'])}".split())


def _path(places: tuple[int | str, ...], fields: Any) -> str:
    """The path of an error within the input: `T.1`, not `p.float`."""
    path: list[str] = []
    for place in places:
        inside = fields.get(place) if isinstance(fields, dict) else None
        if isinstance(fields, list | tuple) and isinstance(place, int) and place < len(fields):
            inside = fields[place]
        if path and inside is None:
            break
        path.append(str(place))
        fields = inside
    return shortened(".".join(path), 80)


def _nearest(name: str, model: type[BaseModel]) -> str:
    near = difflib.get_close_matches(name, list(model.model_fields), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(model.model_fields)}"
