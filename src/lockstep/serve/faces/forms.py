"""Bodies of requests: strict, and with a word of advice for a name that is not known."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from ...errors import did_you_mean

Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Real = StrictFloat | StrictInt


class Strict(BaseModel):
    """A body with these fields and no other; NaN is no number, true is no 1."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, given: Any) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for name in given if isinstance(given, dict) else ():
            if name not in known:
                advice = did_you_mean(name, known)
                raise PydanticCustomError(
                    "unknown_parameter", "unknown name {name}{advice}", {"name": repr(name)[:80], "advice": advice}
                )
        return given


class Lora(Strict):
    """One of the server's LoRAs, at a strength."""

    name: Name
    strength: Real = Field(1.0, ge=-10, le=10)
