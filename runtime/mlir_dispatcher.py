"""``@hybridcc.jit`` on a kernel that is written for ``numba_cuda_mlir.cuda``.

Launches are numba-cuda-mlir's own; ``hybridcc build`` compiles and rewrites the kernel with no GPU, and with
``HYBRIDCC=execute`` launches run on the CPU's executor. What keeps it apart from the other dispatcher: that one is a
numba-cuda dispatcher by inheritance. Selected variants are not put in the place of launches here yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from hybridcc.errors import InputError, LaunchShapeError, UnsupportedOption
from hybridcc.passes.kernel import Kernel


class MlirDispatcher:
    """One kernel. ``kernel[grid, block, stream, sharedmem](*args)`` launches it."""

    def __init__(
        self,
        function: Callable[..., Any],
        signatures: Any,
        options: Mapping[str, Any],
        examples: Callable[[], object] | None,
        mode: str,
        execute_arch: str,
    ) -> None:
        self.py_func = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.options = dict(options)
        self.examples = examples
        self.mode = mode
        self._arch = execute_arch
        self.signatures: list[Any] = signatures if isinstance(signatures, list) else [signatures] if signatures else []
        self._own: Any = None

    def __getitem__(self, shape: Any) -> MlirConfigured:
        if not isinstance(shape, tuple) or len(shape) not in (2, 3, 4):
            raise LaunchShapeError(
                "a launch needs a grid and a block", next_step="write kernel[grid, block](arguments)"
            )
        return MlirConfigured(self, shape)

    def __call__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise LaunchShapeError(
            f"{self.__name__} was called without a grid and a block",
            next_step=f"write {self.__name__}[grid, block](arguments)",
        )

    @property
    def stock(self) -> Any:
        """numba-cuda-mlir's own dispatcher, which launches. Without a GPU it raises that package's error where a
        signature was declared."""
        if self._own is None:
            from numba_cuda_mlir import cuda

            given = self.signatures[0] if len(self.signatures) == 1 else self.signatures or None
            self._own = cuda.jit(given, **self.options)(self.py_func)
        return self._own

    def compile_for(self, types: Any, arch: str) -> Kernel:
        """Raises SignatureError, UnsupportedOption, UnknownArchitecture and ToolchainError."""
        from hybridcc.frontends import numba_mlir

        return numba_mlir.compile(self.py_func, types, arch, **self.options)

    def types_of(self, values: Sequence[Any]) -> Any:
        """The declared signature if there is exactly one, else numba-cuda-mlir's types of the values."""
        from hybridcc.frontends import numba_mlir

        if len(self.signatures) == 1:
            return self.signatures[0]
        return numba_mlir.types_of(self.py_func, values)

    def optimize(self, *args: Any, **how: Any) -> NoReturn:
        """Not there yet. Raises UnsupportedOption."""
        raise UnsupportedOption(
            f"{self.__name__} is for numba_cuda_mlir: its launches cannot be switched to a variant yet",
            next_step="use `hybridcc build` and load the selected cubin, or write it for numba.cuda",
        )


class MlirConfigured:
    """A kernel with its launch shape."""

    def __init__(self, dispatcher: MlirDispatcher, shape: tuple[Any, ...]) -> None:
        self.dispatcher = dispatcher
        self.shape = shape

    def __call__(self, *args: Any) -> None:
        if self.dispatcher.mode == "execute":
            self.execute(*args)
        else:
            self.dispatcher.stock[self.shape](*args)

    def execute(self, *args: Any) -> None:
        """Run this launch on the CPU's executor, on NumPy arrays that are changed in place.

        Raises SignatureError, InputError and ExecutionError.
        """
        from hybridcc.passes.arguments import flatten
        from hybridcc.passes.execute import execute
        from hybridcc.passes.verify.examples import as_launch

        grid, block, *rest = self.shape
        shared_bytes = rest[1] if len(rest) > 1 else 0
        if not isinstance(shared_bytes, int):
            raise InputError("the bytes of shared memory are no integer", next_step="give an integer")
        kernel = self.dispatcher.compile_for(self.dispatcher.types_of(args), self.dispatcher._arch)
        launch = as_launch((grid, block, args, shared_bytes), kernel)
        execute(
            kernel.ptx, kernel.entry, launch.grid, launch.block, flatten(kernel.arguments, launch.values),
            shared_bytes=launch.shared_bytes,
        )  # fmt: skip

    def optimize(self, *args: Any, **how: Any) -> NoReturn:
        self.dispatcher.optimize(*args, **how)
