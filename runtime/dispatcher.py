"""``@hybridcc.jit``: a drop-in for ``@numba.cuda.jit``.

A kernel is a Numba dispatcher: Numba compiles and launches it, until ``optimize`` has selected a variant for a
signature; from then on calls with that signature launch the variant, and all others still go to Numba. Whatever cannot
be followed here (a tuple argument, linked code, an extension) only means that the baseline runs.

``HYBRIDCC`` overrides from outside, read when a kernel is decorated:

``on``        the default
``baseline``  ``optimize`` works and reports, but every launch runs the baseline
``off``       every launch runs the baseline, and ``optimize`` does nothing
``execute``   launches run on the CPU's executor with NumPy arrays; no GPU is needed

``HYBRIDCC_TUNE`` says when kernels are tuned, read at the same time:

``manual``      the default: only ``optimize`` tunes. What it decided under the default policy is used from the first
                call on in other processes too, after a comparison with the baseline if it was made on another day
``background``  also a call that nothing was decided for is tuned, in a child process while the baseline serves; its
                arguments are copied before it is launched. When the child is done, calls switch in one step
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from hybridcc.errors import InputError, LaunchShapeError, LaunchShapeTypeError, NoDevice, UnsupportedOption
from hybridcc.passes.kernel import Kernel
from hybridcc.runtime import device, numba_classes
from hybridcc.runtime.driver import forked, is_forked

if TYPE_CHECKING:
    from hybridcc.first_calls import FirstCalls
    from hybridcc.optimizing import Outcome
    from hybridcc.runtime.launch import Geometry, Launcher

VARIABLE = "HYBRIDCC"
MODES = ("on", "baseline", "off", "execute")
TUNE_VARIABLE = "HYBRIDCC_TUNE"
TUNE_MODES = ("manual", "background")
EXECUTE_ARCH = "sm_90"
"""What ``HYBRIDCC=execute`` compiles for; the executor has no architecture of its own."""

_log = logging.getLogger("hybridcc")

_TAKEN = frozenset(
    {
        *("device", "inline", "forceinline", "link", "debug", "opt", "lineinfo", "cache", "launch_bounds", "lto"),
        *("shared_memory_carveout", "fastmath", "max_registers", "extensions"),
    }
)
"""Keywords of numba-cuda 0.30.4's ``cuda.jit``, all passed on to it."""

_GONE = {
    "argtypes": "give the signature as the first argument",
    "restype": "a kernel returns nothing; leave it out",
    "bind": "kernels bind by themselves; leave it out",
    "boundscheck": "numba-cuda has none; HYBRIDCC=execute checks every access",
    "nopython": "numba-cuda knows no other mode; leave it out",
}
"""Keywords that older versions took: refused by name when they ask for something."""


def jit(
    func_or_sig: Any = None,
    device: bool = False,
    *,
    examples: Callable[[], object] | None = None,
    **options: Any,
) -> Any:
    """Compile a Python function for the GPU as ``numba.cuda.jit`` does, and let it be optimized.

    ``func_or_sig`` is the function, a signature, or a list of signatures; all other keywords are those of
    ``numba.cuda.jit``. ``examples`` is a callable that returns launches (``(grid, block, arguments)``) to test and
    to build with. A device function is returned as Numba's own. Declared signatures are compiled here where there is
    a GPU, as Numba does; without one a kernel can still be imported and built.

    Raises UnsupportedOption for a keyword that ``numba.cuda.jit`` does not take.
    """
    if device:
        options["device"] = True
    _check_keywords(options)
    options = {name: value for name, value in options.items() if name not in _GONE}
    if _is_function(func_or_sig):
        function = getattr(func_or_sig, "py_func", func_or_sig)
        if _is_for_numba_mlir(function):
            return _for_numba_mlir(function, [], options, examples)
        return _decorate(function, [], options, examples, numba_classes.numba_jit(function, **options))
    signatures = [] if func_or_sig is None else func_or_sig
    if _is_for_numba_mlir(signatures):
        return lambda function: _for_numba_mlir(getattr(function, "py_func", function), signatures, options, examples)
    numbas = numba_classes.numba_jit(func_or_sig, **options)  # checks and warns now, as Numba does

    def decorate(function: Any) -> Any:
        function = getattr(function, "py_func", function)
        if _is_for_numba_mlir(function):
            return _for_numba_mlir(function, signatures, options, examples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the second time
            plain = numba_classes.numba_jit(function, **options) if signatures else numbas(function)
        if signatures and _stays_numbas(plain, options) and _can_compile():
            return numbas(function)
        return _decorate(function, signatures, options, examples, plain)

    return decorate


def _is_for_numba_mlir(given: Any) -> bool:
    """A function that uses numba-cuda-mlir's names, or a signature of its types."""
    if "numba_cuda_mlir" not in sys.modules:
        return False
    from hybridcc.frontends import which

    if _is_function(given):
        return which.is_for_numba_mlir(given)
    first = given[0] if isinstance(given, list | tuple) and given else given
    return type(first).__module__.partition(".")[0] == which.SUCCESSOR


def _for_numba_mlir(
    function: Any, signatures: Any, options: Mapping[str, Any], examples: Callable[[], object] | None
) -> Any:
    if options.get("device"):
        from numba_cuda_mlir import cuda

        return cuda.jit(**options)(function)
    from hybridcc.runtime.mlir_dispatcher import MlirDispatcher

    return MlirDispatcher(function, signatures, options, examples, mode(), EXECUTE_ARCH)


def _stays_numbas(plain: Any, options: Mapping[str, Any]) -> bool:
    """A device function, and whatever Numba's simulator makes (it can be switched on and off while a program runs)."""
    return bool(options.get("device")) or numba_classes.SIMULATOR or not isinstance(plain, numba_classes.CUDADispatcher)


def _can_compile() -> bool:
    """Numba asks the driver when it compiles a declared signature."""
    return device.available() is not None


def _is_function(value: Any) -> bool:
    return hasattr(value, "__code__") or hasattr(value, "py_func")


def _check_keywords(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in _GONE:
            if value:
                raise UnsupportedOption(f"hybridcc.jit does not take {name}={value!r}", next_step=_GONE[name])
        elif name not in _TAKEN and not name.startswith("_"):  # those are Numba's own
            raise UnsupportedOption(
                f"numba.cuda.jit has no keyword {name!r}", next_step=f"the keywords are: {', '.join(sorted(_TAKEN))}"
            )


def _decorate(
    function: Any, signatures: Any, options: Mapping[str, Any], examples: Callable[[], object] | None, plain: Any
) -> Any:
    """``signatures`` is a list of them, or one, which Numba then converts arguments to without looking at them;
    ``plain`` is what Numba makes of the function without them."""
    if _stays_numbas(plain, options):
        return plain
    return Dispatcher(function, signatures, options, examples, plain)


def mode() -> str:
    """Raises InputError for a value that HYBRIDCC does not have."""
    return _one_of(VARIABLE, MODES)


def tune_mode() -> str:
    """Raises InputError for a value that HYBRIDCC_TUNE does not have."""
    return _one_of(TUNE_VARIABLE, TUNE_MODES)


def _one_of(variable: str, modes: Sequence[str]) -> str:
    """The variable's value, the first of its modes where it is not set."""
    value = os.environ.get(variable, "") or modes[0]
    if value not in modes:
        raise InputError(f"{variable}={value} is no mode", next_step=f"set it to one of {', '.join(modes)}")
    return value


class Dispatcher(numba_classes.CUDADispatcher):
    """One kernel. ``kernel[grid, block, stream, sharedmem](*args)`` launches it.

    It is a Numba dispatcher, and ``py_func``, ``signatures``, ``inspect_asm``, ``overloads``, ``get_regs_per_thread``,
    ``specialize``, ``extensions`` … are Numba's; they describe the baseline.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signatures: Any = (),
        options: Mapping[str, Any] | None = None,
        examples: Callable[[], object] | None = None,
        plain: Any = None,
    ) -> None:
        """``plain`` is Numba's dispatcher without the signatures: its checks and defaults are taken over."""
        self.options = dict(options or {})
        super().__init__(function, (plain or numba_classes.numba_jit(function, **self.options)).targetoptions)
        if self.options.get("cache"):
            self.enable_caching()
        self.examples = examples
        self.mode = mode()
        self.selected: list[Launcher] = []
        """One launcher per signature and device for which a variant was selected. Changed in one step, so that no
        launch waits for a lock."""
        self.outcomes: list[Outcome] = []
        """What each call of ``optimize`` came to, newest last."""
        self.converts = bool(signatures) and not isinstance(signatures, list)
        """Whether one signature was declared by itself: arguments are then converted to it, and not typed."""
        self._declared: list[Any] = signatures if isinstance(signatures, list) else [signatures] if signatures else []
        self._configured: dict[Any, Configured] = {}
        self._latest: Configured | None = None
        self._changing = threading.Lock()
        self._tunes_in_background = tune_mode() == "background"
        self.looks = self.mode == "on" and not self.targetoptions["debug"]
        """Whether first calls look what was decided before, or start tuning in the background."""
        self._first_calls: FirstCalls | None = None
        _alive.add(self)
        if self._declared:
            self._compile_declared()

    def _compile_declared(self) -> None:
        """As Numba does when it decorates; not where there is no GPU to compile for."""
        if self.mode == "execute" or device.available() is None:
            return
        for signature in self._declared:
            self.compile(numba_classes.normalize_signature(signature))
        self._specialized = self.converts
        self.disable_compile()

    # --- launching ---

    def __getitem__(self, shape: Any) -> Configured:
        try:
            configured = self._latest = self._configured[shape]
        except KeyError:
            configured = self._latest = self._configure(shape)
        return configured

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Configured:
        return self[griddim, blockdim, stream, sharedmem]

    def _configure(self, shape: Any) -> Configured:
        if not isinstance(shape, tuple) or len(shape) not in (2, 3, 4):
            raise LaunchShapeError(
                "a launch needs a grid and a block: must specify at least the griddim and blockdim",
                next_step="write kernel[grid, block](arguments)",
            )
        grid, block, *rest = shape
        stream, shared_bytes = (*rest, *(0, 0)[len(rest) :])
        grid, block = _dimensions(grid, block)
        configured = Configured(self, grid, block, stream, shared_bytes)
        if len(self._configured) >= 128:  # as many as Numba keeps
            self._configured.clear()
        self._configured[shape] = configured
        return configured

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> ForAll:
        """A launch over at least ``ntasks`` threads in one dimension; with ``tpb`` 0 the driver picks the block."""
        if ntasks < 0:
            raise LaunchShapeError(
                f"Can't create ForAll with negative task count: {ntasks}",
                next_step="give a number of tasks that is not negative",
            )
        return ForAll(self, ntasks, tpb, stream, sharedmem)

    def __call__(self, *args: Any, **keywords: Any) -> None:
        raise LaunchShapeError(
            f"{self.__name__} was called without a grid and a block: kernel launch configuration was not specified",
            next_step=f"write {self.__name__}[grid, block](arguments)",
        )

    # --- what Numba's dispatcher offers ---

    @functools.cached_property
    def stock(self) -> Any:
        """Numba's own dispatcher of the same function, apart from this one: to compare with. Raises NoDevice where it
        would need a GPU to compile the declared signatures."""
        if not self._declared:
            return numba_classes.numba_jit(**self.options)(self.py_func)
        self._need_device()
        signatures = self._declared[0] if self.converts else self._declared
        return numba_classes.numba_jit(signatures, **self.options)(self.py_func)

    @property
    def signatures(self) -> list[tuple[Any, ...]]:
        """Tuples of Numba types: the declared ones as written, then what calls have compiled."""
        from hybridcc.frontends.numba import argument_types

        declared = [argument_types(signature) for signature in self._declared]
        return declared + [types for types in self.overloads if types not in declared]

    def __repr__(self) -> str:
        """As Numba's, which its messages quote."""
        return f"CUDADispatcher({self.py_func})"

    def _reduce_states(self) -> dict[str, Any]:
        """As with Numba's own, what was compiled and selected stays behind."""
        return {"py_func": self.py_func, "options": self.options}

    @classmethod
    def _rebuild(cls, py_func: Any, options: Mapping[str, Any]) -> Dispatcher:
        return cls(py_func, (), options)

    def _need_device(self) -> None:
        try:
            device.current()
        except NoDevice as error:
            raise type(error)(
                f"{self.__name__} cannot be launched: {error.what}",
                where=f"{self.py_func.__code__.co_filename}:{self.py_func.__code__.co_firstlineno}",
                next_step=error.next_step,
            ) from error

    # --- optimizing ---

    def compile_for(self, types: Sequence[Any], arch: str) -> Kernel:
        """The kernel's PTX for these Numba types. Raises SignatureError, UnsupportedOption and ToolchainError."""
        from hybridcc.frontends import numba

        return numba.compile(self.py_func, tuple(types), arch, **self.options)

    def types_of(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The signature that a call with these values has: the declared one if there is exactly one."""
        from hybridcc.frontends import numba

        if self.converts:
            return numba.argument_types(self._declared[0])
        return tuple(numba.type_of(value) for value in values)

    def optimize(
        self, *args: Any, grid: Any = None, block: Any = None, stream: Any = 0, sharedmem: int = 0, **how: Any
    ) -> Outcome:
        """``kernel[grid, block].optimize(*args)`` with the launch shape as keywords, or with that of the latest launch;
        ``how`` is described there. Raises InputError where there is neither."""
        if grid is None and block is None and self._latest is not None:
            return self._latest.optimize(*args, **how)
        if grid is None or block is None:
            raise InputError(
                f"{self.__name__} was not launched yet, so nothing says its grid and block",
                next_step=f"write {self.__name__}[grid, block].optimize(arguments)",
            )
        return self[grid, block, stream, sharedmem].optimize(*args, **how)

    def report(self) -> str:
        """What ``optimize`` found, newest last: text, which a notebook shows as a page with plots and diffs."""
        from hybridcc.optimizing import told_of

        return told_of(self.__name__, self.outcomes)

    def use(self, launcher: Launcher | None, types: tuple[Any, ...], ordinal: int = 0) -> None:
        """Launch ``launcher`` for these types on that device from the next call on; None goes back to the baseline."""
        with self._changing:
            others = [each for each in self.selected if (each.types, each.ordinal) != (types, ordinal)]
            self.selected[:] = others if launcher is None else [launcher, *others]

    def look(self, configured: Configured, args: Sequence[Any]) -> bool:
        """Whether a variant was selected just now, for this call too."""
        from hybridcc.first_calls import FirstCalls

        first = self._first_calls = self._first_calls or FirstCalls(self, self._tunes_in_background)
        found = first.look(configured, args)
        self.looks = self.looks and not first.over
        return found

    def look_again(self) -> None:
        """Something was decided: the kernel's first calls on other devices of this process may find it."""
        if self.mode == "on" and device.count() > 1:
            self._first_calls, self.looks = None, True

    def _refuse(self) -> None:
        """In a forked child, where no launch can work."""
        self._changing = threading.Lock()
        self.selected[:] = [cast(Any, _Refusing())]


class _Refusing:
    """In the place of a launcher: an error at the launch itself, which costs other launches nothing."""

    types, ordinal, is_here = (), -1, True

    def read(self, values: Sequence[Any], stream: int = 0) -> NoReturn:
        raise forked()


_alive: weakref.WeakSet[Dispatcher] = weakref.WeakSet()


def _after_fork() -> None:
    if is_forked():
        for dispatcher in list(_alive):
            dispatcher._refuse()


os.register_at_fork(after_in_child=_after_fork)


def _dimensions(grid: Any, block: Any) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """As Numba reads them. Raises LaunchShapeError for a wrong number of sizes, LaunchShapeTypeError for sizes that
    are no integers."""
    from numba.cuda.errors import normalize_kernel_dimensions

    try:
        return normalize_kernel_dimensions(grid, block)
    except ValueError as error:
        raise LaunchShapeError(str(error).strip(), next_step="write kernel[grid, block](arguments)") from error
    except TypeError as error:
        raise LaunchShapeTypeError(str(error), next_step="give integers, for instance n // 256") from error


class ForAll(numba_classes.ForAll):
    """What ``kernel.forall(n)`` gives: Numba's, but that it launches what was selected."""

    def __call__(self, *args: Any) -> None:
        kernel: Dispatcher = self.dispatcher
        if self.ntasks == 0:
            return
        if kernel.mode == "execute":
            block = self.thread_per_block or 128
        else:
            kernel._need_device()
            if not kernel.selected:
                super().__call__(*args)
                return
            block = self.thread_per_block or self._compute_thread_per_block(
                kernel if kernel.specialized else kernel.specialize(*args)
            )
        kernel[-(-self.ntasks // block), block, self.stream, self.sharedmem](*args)


class Configured(numba_classes.LaunchConfiguration):
    """A kernel with its launch shape: what ``kernel[grid, block, stream, sharedmem]`` gives."""

    _OWN = ("_selected", "_geometry", "_handle", "_given", "_launchable")

    def __init__(self, dispatcher: Dispatcher, grid: Any, block: Any, stream: Any, shared_bytes: int) -> None:
        self._own(dispatcher, stream)
        if self._launchable:
            from hybridcc.runtime.host_arrays import stream_for_numba

            super().__init__(dispatcher, grid, block, stream_for_numba(stream), shared_bytes)
        else:
            self.dispatcher, self.griddim, self.blockdim = dispatcher, grid, block
            self.stream, self.sharedmem = stream, shared_bytes
            self.pre_launch_callbacks: list[Any] = []

    def _own(self, dispatcher: Dispatcher, stream: Any) -> None:
        self._selected = dispatcher.selected
        self._geometry: Geometry | None = None
        self._handle = 0
        self._given = stream  # kept alive: Numba keeps its handle alone
        self._launchable = dispatcher.mode != "execute" and device.available() is not None

    def __call__(self, *args: Any) -> None:
        if self._selected and not self.pre_launch_callbacks:  # Numba's callbacks see Numba's kernels
            geometry = self._geometry or self._prepare()
            for launcher in self._selected:
                flat = launcher.read(args, self._handle)
                if flat is not None:
                    trouble = launcher.launch(geometry, flat)
                    if not trouble:
                        return
                    _log.warning("%s: the selected variant was not launched (%s)", self.dispatcher.__name__, trouble)
            if self._launch_from_host(geometry, args):
                return
        if self._launchable:
            if self.dispatcher.looks and not self.pre_launch_callbacks and self.dispatcher.look(self, args):
                self(*args)
            else:
                super().__call__(*args)
        elif self.dispatcher.mode == "execute":
            self.execute(*args)
        else:
            self.dispatcher._need_device()

    def _prepare(self) -> Geometry:
        from hybridcc.runtime.driver import stream_handle
        from hybridcc.runtime.launch import geometry

        self._handle = stream_handle(self.stream)
        self._geometry = geometry(self.griddim, self.blockdim, self.sharedmem, self._handle)
        return self._geometry

    def _launch_from_host(self, geometry: Geometry, args: Sequence[Any]) -> bool:
        """Copy host arrays over, launch, copy them back; False if no selected variant is for these types."""
        from hybridcc.runtime.host_arrays import launch_with_copies

        types = self.dispatcher.types_of(args)
        launcher = next((each for each in self._selected if each.types == types and each.is_here), None)
        return launcher is not None and launch_with_copies(launcher, geometry, args)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in self._OWN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._own(self.dispatcher, self.stream)

    def execute(self, *args: Any) -> None:
        """Run this launch on the CPU's executor, on NumPy arrays that are changed in place.

        Raises SignatureError, InputError and ExecutionError (an access out of bounds, a race, an endless loop …).
        """
        from hybridcc.passes.arguments import flatten
        from hybridcc.passes.execute import execute
        from hybridcc.passes.verify.examples import as_launch

        dispatcher = self.dispatcher
        kernel = dispatcher.compile_for(dispatcher.types_of(args), EXECUTE_ARCH)
        launch = as_launch((self.griddim, self.blockdim, args, self.sharedmem), kernel)
        execute(
            kernel.ptx,
            kernel.entry,
            launch.grid,
            launch.block,
            flatten(kernel.arguments, launch.values),
            shared_bytes=launch.shared_bytes,
        )

    def optimize(self, *args: Any, **how: Any) -> Outcome:
        """Run profile to selection on these arguments; calls with their types launch what was selected.

        The arguments are copied to the host and never written. ``how`` takes ``budget_s`` (seconds for racing, 60),
        ``rewriter`` (as ``--rewriter``; without it the recording beside the kernel's file), ``accept`` ("proved" or
        "tested"), ``select``, ``examples``, ``answers``, ``seed``, ``reuse`` (take an earlier decision from the
        store), ``minimise`` (how many texts may be checked to reduce the winner to the edits that
        matter) and ``progress`` (a function of one string; without it progress goes to standard error when that is a
        terminal). Interrupting it leaves what was launched before. Whatever fails on the way, the baseline runs and
        the outcome says why; raises NoDevice without a GPU.
        """
        self.dispatcher._need_device()
        from hybridcc.optimizing import optimize_call

        outcome = optimize_call(self, args, **how)
        self.dispatcher.outcomes.append(outcome)
        return outcome
