"""Numba kernels to PTX through numba-cuda, with no GPU and no driver."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from hybridcc.errors import HybridccError, MissingExtra, SignatureError, UnknownArchitecture
from hybridcc.frontends import mangling, numba_types
from hybridcc.frontends.numba_options import CompileOptions, compile_options
from hybridcc.passes.kernel import Kernel
from hybridcc.runtime import toolchain


def compile(function: Any, signature: Any, arch: str, **options: Any) -> Kernel:
    """Compile a kernel for ``arch`` ("sm_90").

    ``function`` is a Python function, or a ``numba.cuda.jit`` or ``hybridcc.jit`` object, whose own options hold
    where none is given here. ``signature`` is what ``numba.cuda.jit`` takes: a string, a tuple of Numba types or a
    Numba signature. ``options`` are the keywords of ``numba.cuda.jit``.

    Raises SignatureError (with Numba's reason), UnsupportedOption, UnknownArchitecture and ToolchainError.
    """
    prepare()
    function, inherited = unwrap(function)
    chosen = compile_options({**inherited, **options})
    types = argument_types(signature)
    names = _parameter_names(function, types)
    arguments = numba_types.arguments(names, types)
    ptx = _ptx(function, types, _capability(arch), chosen)
    entry = _entry(ptx)
    _check_complete(ptx, function)
    ptx, entry = mangling.canonical(ptx, entry)
    if chosen.max_registers is not None:
        ptx = _limit_registers(ptx, entry, chosen.max_registers)
    _check_parameters(ptx, entry, [field.ptx_type for argument in arguments for field in argument.fields])
    return Kernel(
        name=function.__name__,
        entry=entry,
        ptx=ptx,
        arch=arch,
        frontend=f"numba-cuda {metadata.version('numba-cuda')}",
        arguments=arguments,
        facts=numba_types.facts(arguments, chosen.launch_bounds),
        launch_bounds=chosen.launch_bounds,
        source_file=function.__code__.co_filename,
        source_line=function.__code__.co_firstlineno,
    )


IN_THE_DRIVER = {"vprintf", "malloc", "free", "__assertfail"}
"""What device code may call without holding it (CUDA C++ Programming Guide, "Formatted Output" and after)."""
_EXTERNAL = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)


def _check_complete(ptx: str, function: Any) -> None:
    """Numba leaves some functions (float16 arithmetic) to code that it compiles and links in beside the PTX. Raises
    SignatureError."""
    missing = sorted(set(_EXTERNAL.findall(ptx)) - IN_THE_DRIVER)
    if missing:
        code = function.__code__
        raise SignatureError(
            f"{function.__name__} calls {', '.join(missing)}, which Numba links in from outside its PTX",
            where=f"{code.co_filename}:{code.co_firstlineno}",
            next_step="convert float16 to float32 before computing with it; call no function from another file",
        )


def prepare() -> None:
    """Load numba-cuda on NVIDIA's wheels. Must come before anything else imports ``numba.cuda`` where NumPy is 2.5
    or newer. Raises MissingExtra or ToolchainError."""
    try:
        toolchain.prepare_numba()
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Numba kernels need {error.name}", next_step="pip install 'numba-cuda[cu13]'") from error


def unwrap(function: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The Python function behind a jit object, and the object's options. Raises SignatureError for no function."""
    inherited: dict[str, Any] = {}
    if hasattr(function, "py_func"):
        inherited = dict(getattr(function, "options", None) or getattr(function, "targetoptions", None) or {})
        inherited.pop("lto", None)  # numba-cuda's own default is on, and says nothing about what the user wants
        function = function.py_func
        if inherited.get("debug"):
            inherited.pop("opt", None)
    if not inspect.isfunction(function):
        raise SignatureError(f"{function!r} is no Python function", next_step="give the kernel itself")
    return function, inherited


SIGNATURE_FORM = 'write it as numba.cuda.jit takes it: "void(float32[::1], float32[::1], int64)"'


def argument_types(signature: Any) -> tuple[Any, ...]:
    """The Numba types of ``void(float32[::1], int64)``, of ``(float32[::1], int64)`` or of a tuple of types."""
    prepare()
    from numba.cuda import types
    from numba.cuda.core import sigutils  # pyright: ignore[reportMissingImports]

    if isinstance(signature, types.Type):
        signature = (signature,)
    if isinstance(signature, str):
        _check_names(signature, types)
    try:
        arguments, result = sigutils.normalize_signature(signature)
    except Exception as error:  # the string is evaluated: it can raise anything
        raise SignatureError(
            f"not a signature: {signature!r}: {error}",
            next_step=SIGNATURE_FORM,
        ) from error
    if result not in (None, types.void):
        raise SignatureError(f"a kernel returns nothing, not {result}", next_step="write void(…)")
    return tuple(arguments)


def _check_names(signature: str, types: Any) -> None:
    """Numba evaluates a signature: it may name types, and nothing else. Raises SignatureError."""
    try:
        nodes = list(ast.walk(ast.parse(signature.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SignatureError(f"not a signature: {signature[:200]!r}: {error}", next_step=SIGNATURE_FORM) from None
    for node in nodes:
        unknown = isinstance(node, ast.Name) and not hasattr(types, node.id)
        if unknown or isinstance(node, ast.Attribute | ast.comprehension | ast.Lambda):
            raise SignatureError(
                f"not a signature: {signature!r}: {ast.unparse(node)} is no type", next_step=SIGNATURE_FORM
            )


def type_of(value: Any) -> Any:
    """The Numba type that ``numba.cuda`` gives an argument. Raises SignatureError when it has none."""
    prepare()
    from numba.cuda.typing.typeof import Purpose, typeof  # pyright: ignore[reportMissingImports]

    try:
        return typeof(value, Purpose.argument)
    except ValueError as error:
        raise SignatureError(f"Numba knows no type for {value!r}", next_step="pass arrays and numbers") from error


def _ptx(function: Callable[..., Any], types: Sequence[Any], capability: Any, options: CompileOptions) -> str:
    from numba.cuda import types as numba_types_

    from numba import cuda

    bounds = options.launch_bounds
    given = tuple(bound for bound in (bounds.max_threads, bounds.min_blocks) if bound is not None) or None
    opt = not options.debug if options.opt is None else options.opt
    try:
        with _device_functions_without_a_device():
            ptx, _ = cuda.compile_ptx(
                function,
                numba_types_.void(*types),
                cc=capability,
                fastmath=options.fastmath,
                opt=opt,
                debug=options.debug,
                lineinfo=options.lineinfo,
                launch_bounds=given,
            )
    except HybridccError:
        raise
    except Exception as error:  # typing runs user code and Numba's whole compiler: no narrower type covers it
        signature = ", ".join(str(type_) for type_ in types)
        raise SignatureError(
            f"{function.__name__} does not compile for ({signature}): {short_reason(error)}",
            where=f"{function.__code__.co_filename}:{_line(error) or function.__code__.co_firstlineno}",
            next_step="mend the kernel or its signature",
        ) from error
    return ptx if ptx.endswith("\n") else ptx + "\n"


@dataclass(frozen=True, slots=True)
class _AnyDevice:
    """What numba-cuda asks a device for when it compiles a device function."""

    compute_capability: tuple[int, int]


@contextmanager
def _device_functions_without_a_device() -> Iterator[None]:
    """numba-cuda 0.30.4 compiles a kernel for any architecture, but asks the driver which one a *device function*
    is for (dispatcher.py, compile_device), and keeps that result for every architecture after. Only features below
    sm_80 depend on it, so it is told sm_80, and the PTX depends neither on the machine nor on what came before.
    """
    from numba.cuda import dispatcher
    from numba.cuda.core.compiler_lock import global_compiler_lock  # pyright: ignore[reportMissingImports]

    with global_compiler_lock:
        kept = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: _AnyDevice((8, 0))
        try:
            yield
        finally:
            dispatcher.get_current_device = kept


def short_reason(error: BaseException) -> str:
    """The first sentence of Numba's message that says something."""
    text = re.sub(r"\x1b\[[\d;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Failed in ")]
    if not lines:
        return type(error).__name__
    reason = lines[0]
    if reason.endswith("for signature:") and len(lines) > 1:
        reason += " " + lines[1].removeprefix(">>> ")
    return re.sub(r", defined at None$", "", reason)


def _line(error: BaseException) -> int | None:
    found = re.search(r'File "[^"\n]*", line (\d+)|\((\d+)\)\s*$', re.sub(r"\x1b\[[\d;]*m", "", str(error)))
    return int(found[1] or found[2]) if found else None


def _parameter_names(function: Callable[..., Any], types: Sequence[Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        raise SignatureError(f"{function.__name__} takes *args, **kwargs or keywords", next_step="name every argument")
    if len(parameters) != len(types):
        raise SignatureError(
            f"{function.__name__} takes {len(parameters)} arguments, the signature has {len(types)}",
            where=f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}",
            next_step="give one type per argument",
        )
    return tuple(parameter.name for parameter in parameters)


@cache
def _capabilities() -> frozenset[tuple[int, int]]:
    toolchain.load("nvrtc")
    from numba.cuda.cudadrv import nvrtc

    return frozenset(nvrtc.get_supported_ccs())  # pyright: ignore[reportAttributeAccessIssue]


def _capability(arch: str) -> tuple[int, int] | tuple[int, int, str]:
    """``sm_90a`` as (9, 0, "a"). Numba would quietly take the nearest architecture for one it does not know."""
    found = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    suffixes = {"": 0, "a": 9, "f": 10}  # architecture-specific code begins with sm_90a, family-specific with sm_100f
    if found is None or (int(found[1]), int(found[2])) not in _capabilities() or int(found[1]) < suffixes[found[3]]:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in sorted(_capabilities()))
        raise UnknownArchitecture(f"no architecture {arch!r}", next_step=f"give one of {known}")
    major, minor = int(found[1]), int(found[2])
    return (major, minor, found[3]) if found[3] else (major, minor)


_ENTRY = re.compile(r"^\s*\.visible\s+\.entry\s+(\S+?)\s*\(([^)]*)\)", re.MULTILINE)


def _entry(ptx: str) -> str:
    found = _ENTRY.findall(ptx)
    if len(found) != 1:
        raise SignatureError(f"Numba gave {len(found)} entries", next_step="report this with the kernel")
    return found[0][0]


def _limit_registers(ptx: str, entry: str, limit: int) -> str:
    """Numba hands the limit to the linker; as a directive of the entry it stays with the PTX."""
    at = ptx.index("{", ptx.index(f".entry {entry}"))
    return f"{ptx[:at]}.maxnreg {limit}\n{ptx[at:]}"


def _check_parameters(ptx: str, entry: str, expected: Sequence[str]) -> None:
    """The arguments' fields against what the entry declares: a Numba that lays them out otherwise must be noticed."""
    found = next(match for match in _ENTRY.finditer(ptx) if match[1] == entry)
    declared = re.findall(r"\.param\s+(\.\w+)\s", found[2])
    if declared != list(expected):
        raise SignatureError(
            f"numba-cuda declares the parameters {declared} where {list(expected)} were expected",
            next_step="use the version of numba-cuda in constraints.txt",
        )
