"""Which step of which loop is running, told from the scheduler's calls; without one, from the models' times."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import RecordError
from ..trace.names import NO_STEP

PRELOOP, POSTLOOP = "preloop", "post_loop"


class RecordingStopped(BaseException):
    """Leaves the recorded call early; caught by the recorder (not an Exception, so that no pipeline swallows it)."""


def wanted_steps(steps: str | int | Iterable[int]) -> set[int] | None:
    """None for all of them."""
    if steps == "all":
        return None
    if isinstance(steps, (bool, str)):
        raise RecordError(f'steps must be "all", a number of steps, or step numbers, got {steps!r}')
    return set(range(steps)) if isinstance(steps, int) else {int(i) for i in steps}


class Loop:
    """The current step label: '-' outside, 'denoise:07' inside, 'pass:1/denoise:00' when a second loop begins."""

    def __init__(
        self, steps: str | int | Iterable[int] = "all", stop_at: str | None = None, start_at: str | None = None
    ) -> None:
        if start_at not in (None, PRELOOP, POSTLOOP):
            raise RecordError(f"start_at must be {PRELOOP!r} or {POSTLOOP!r}, got {start_at!r}")
        self._start_at = start_at
        self._wanted = wanted_steps(steps)
        self._stop_at = _canonical_stop(stop_at)
        self._total: int | None = None
        self._index = -1  # the step in progress or done last
        self._inside = False
        self._awaiting = True  # the next model call begins a new step
        self._pass = 0
        self._time: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        if not self._inside:
            return NO_STEP
        prefix = f"pass:{self._pass}/" if self._pass else ""
        return f"{prefix}denoise:{self._index:02d}"

    @property
    def recording(self) -> bool:
        return self._start_at is None and (self._wanted is None or not self._inside or self._index in self._wanted)

    @property
    def is_last(self) -> bool:
        """True during the last step of the schedule."""
        return self._total is not None and self._index + 1 >= self._total

    def schedule_set(self, total: int | None) -> None:
        """`set_timesteps` was called: a loop will begin."""
        if self._index >= 0:
            self._pass += 1
        self._total, self._index, self._inside, self._awaiting = total, -1, False, True

    def model_called(self) -> None:
        """Something that only happens inside the loop: the input is scaled, or a model is given a timestep."""
        if not self._awaiting or (self._total is not None and self._index + 1 >= self._total):
            return
        self._begin()

    def given(self, time: tuple[float, ...] | None) -> None:
        """A model is called in a loop without a scheduler: at another time the next step begins, and what is called
        without any is outside of the loop."""
        if self._inside and time != self._time and self._stop_at == self.label:
            raise RecordingStopped(self.label)
        if time is None:
            self._inside = False
        elif time == self._time:
            self._inside = True
        else:
            self._time = time
            self._begin()

    def left(self, paced: bool) -> None:
        """Something is done that is no part of a loop: pictures are made of its result, or the run ends. A loop may be
        shorter than its schedule."""
        if paced:
            self.given(None)
        elif self._awaiting:
            self._inside = False

    def inputs_seen(self) -> None:
        """Everything that the first model call of the loop is given has been recorded."""
        if self._inside and self._index == 0 and self._stop_at == PRELOOP:
            raise RecordingStopped(PRELOOP)

    def _begin(self) -> None:
        if self._start_at == PRELOOP:
            self._start_at = None
        self._index, self._inside, self._awaiting = self._index + 1, True, False

    def step_begun(self) -> None:
        """`scheduler.step` is entered (also where no model call was seen before it)."""
        if self._awaiting:
            self._begin()
        self.inputs_seen()

    def step_done(self) -> None:
        """`scheduler.step` has returned: the next model call is the next step's."""
        label = self.label
        self._awaiting = True
        if self._stop_at is not None and label == self._stop_at:
            raise RecordingStopped(label)
        if self._total is not None and self._index + 1 >= self._total:
            self._inside = False
            self._start_at = None
            if self._stop_at == POSTLOOP:
                raise RecordingStopped(POSTLOOP)

    def module_done(self, path: str) -> None:
        if self._stop_at == path:
            raise RecordingStopped(path)


def _canonical_stop(stop_at: str | None) -> str | None:
    """'after_step_1' and 'denoise:1' mean 'denoise:01'."""
    if stop_at is None:
        return None
    if stop_at.startswith("after_step_") and stop_at[11:].isdigit():
        return f"denoise:{int(stop_at[11:]):02d}"
    head, _, number = stop_at.partition(":")
    if head == "denoise" and number.isdigit():
        return f"denoise:{int(number):02d}"
    return stop_at
