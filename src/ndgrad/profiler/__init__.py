"""The profiler under the names of torch.profiler: `profile` with a schedule of steps, and handlers of finished traces.

It is the profiler of ndgrad.profiler.timing, controlled by a schedule: in a long training run a few steps are measured,
after others without measurement or for warming up.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable
from typing import Any, Self

from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.profiler.events import EventList
from ndgrad.profiler.timing import kineto_available, record_function
from ndgrad.profiler.timing import profile as _autograd_profile

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """Kinds of measurement. Work on a GPU appears as the calls that start it.

    >>> import ndgrad
    >>> ndgrad.profiler.ProfilerActivity.CPU.name
    'CPU'
    """

    CPU = 0
    CUDA = 2


class ProfilerAction(enum.Enum):
    """Actions in a step.

    >>> import ndgrad
    >>> [action.name for action in ndgrad.profiler.ProfilerAction]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return the supported measurements: calls, and with a GPU, its time (see ndgrad.profiler.device_time).

    >>> import ndgrad
    >>> ndgrad.profiler.ProfilerActivity.CPU in ndgrad.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if devices_or_none()[1] else {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a function from the number of a step to its action.

    After `skip_first` steps come cycles of `wait` steps without measuring, `warmup` steps that are measured and
    discarded, and `active` steps that are kept; `repeat` cycles, or unlimited for 0. `skip_first_wait` leaves out the
    waiting of the first cycle.

    Args:
        wait: steps of a cycle without measuring.
        warmup: steps of a cycle that are measured and discarded.
        active: steps of a cycle that are kept.
        repeat: number of cycles. 0 means no limit.
        skip_first: steps before the first cycle.
        skip_first_wait: whether the first cycle does not wait, if not 0.

    >>> steps = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [steps(i).name for i in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first, skip_first_wait) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments: wait={wait}, warmup={warmup}, repeat={repeat}, "
            f"skip_first={skip_first} and skip_first_wait={skip_first_wait} must not be negative, "
            f"and active={active} must be positive. [nd-profiler]"
        )
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}. [nd-range]")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return action


class profile:
    """Context that measures all calls, or with a `schedule` those of some steps; call `step()` after each step.

    When a cycle of the schedule is complete (and at the end), `on_trace_ready(profile)` is called
    with the events of the cycle.

    Args:
        activities: kinds of measurement. The default is all that are available.
        schedule: function from the number of a step to its action, from `schedule`. The default measures all.
        on_trace_ready: function of the profile, called when a cycle is complete.
        record_shapes: whether shapes of arguments are kept.
        profile_memory: whether memory is measured.
        with_stack: whether lines of the program are kept.
        with_flops: whether floating-point operations are counted.
        with_modules: whether the modules of calls are kept.
        experimental_config: accepted as in torch; has no effect.
        execution_trace_observer: accepted as in torch; has no effect.
        acc_events: kept as an attribute, without further effect.
        use_cuda: older form of `ProfilerActivity.CUDA` in `activities`.
        custom_trace_id_callback: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> x = ndgrad.ones(3)
    >>> count = lambda p: print(len(p.events()))
    >>> with profile(schedule=schedule(wait=1, warmup=1, active=1), on_trace_ready=count) as p:
    ...     for _ in range(3):
    ...         y = x * x
    ...         p.step()
    2
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError(
                "No valid profiler activities found: give ProfilerActivity.CPU, or leave activities out. [nd-profiler]"
            )
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.acc_events = acc_events
        self._options: dict[str, Any] = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "with_modules": with_modules,
            "use_cuda": bool(use_cuda) or ProfilerActivity.CUDA in self.activities,
        }
        self.step_num = 0
        self.profiler: _autograd_profile | None = None
        self._range: record_function | None = None
        self._action = ProfilerAction.NONE

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin the first step."""
        self._go_on(self._action_of(self.step_num))
        self._open_range()

    def stop(self) -> None:
        """End, at any point of the schedule; the events measured so far in the cycle are ready."""
        self._close_range()
        recording = self._action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._action = ProfilerAction.NONE
        if self.profiler is not None and self.profiler._recorder is not None:
            self.profiler._stop()
            if recording:
                self._report_trace()

    def step(self) -> None:
        """End a step, and begin the next one."""
        self._close_range()
        self.step_num += 1
        before, after = self._action, self._action_of(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE and self.profiler is not None:
            self.profiler._stop()
            self._action = ProfilerAction.NONE
            self._report_trace()
        self._go_on(after)
        self._open_range()

    def _action_of(self, step: int) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(step)

    def _go_on(self, action: ProfilerAction) -> None:
        """Switch from the action of the last step to that of the next."""
        recording = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        running = self.profiler is not None and self.profiler._recorder is not None
        if action is ProfilerAction.NONE:
            if running and self.profiler is not None:
                self.profiler._stop()
        elif not running or (self._action is ProfilerAction.WARMUP and action in recording):
            if running and self.profiler is not None:
                self.profiler._stop()
            self.profiler = _autograd_profile(**self._options)
            self.profiler._start()
        self._action = action

    def _open_range(self) -> None:
        if self.schedule is not None and self._action is not ProfilerAction.NONE:
            self._range = record_function(f"ProfilerStep#{self.step_num}")
            self._range.__enter__()

    def _close_range(self) -> None:
        if self._range is not None:
            self._range.__exit__()
            self._range = None

    def _report_trace(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # ----- measurements -----------------------------------------------------------------------------------------------

    def _require_profile(self, what: str) -> _autograd_profile:
        if self.profiler is None:
            raise AssertionError(
                f"Profiler must be initialized before {what}: nothing has been measured yet. [nd-profiler]"
            )
        return self.profiler

    def events(self) -> EventList:
        """Return the events of the last cycle."""
        return self._require_profile("accessing events").function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the events of the last cycle grouped by name, and on request by shapes and lines.

        Args:
            group_by_input_shape: whether groups have the same shapes. Needs `record_shapes=True`.
            group_by_stack_n: number of lines that groups have in common. Needs `with_stack=True`.
            group_by_overload_name: whether groups have the same name of an overload.
        """
        return self._require_profile("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last cycle as a trace for chrome://tracing or Perfetto.

        Args:
            path: path of the file.
        """
        self._require_profile("exporting a trace").export_chrome_trace(path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write the stacks of the last cycle for flame graphs; needs `with_stack=True`.

        Args:
            path: path of the file.
            metric: time to write, such as `"self_cpu_time_total"`.
        """
        self._require_profile("exporting stacks").export_stacks(path, metric)

def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a handler of finished traces that writes them to a folder, with names for TensorBoard's plugin.

    Args:
        dir_name: folder of the traces.
        worker_name: beginning of their names. The default is the host and the process.
        use_gzip: whether traces are compressed.

    >>> import ndgrad
    >>> handler = ndgrad.profiler.tensorboard_trace_handler("traces")
    """
    import socket  # only for names of files
    import time

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}")
        prof.export_chrome_trace(path)

    return write


_refuse_absent(__name__)
