"""Writes the training of a model as a C program for devices without Python."""

import os
import tempfile
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Any

from odt.arguments import checked_arguments
from odt.compilation.device import Device, PlannedStep
from odt.compilation.web_assembly import check_compiler, for_javascript
from odt.core.emit.device import stack_nbytes
from odt.core.emit.model_image import ModelImage, model_image, not_exportable
from odt.core.emit.project import check_name, identifier, project
from odt.core.emit.step_program import StepProgram, step_program
from odt.core.emit.stored_forms import StoredForm, stored_biases, stored_halves
from odt.core.options.compile_options import COMPILE_OPTIONS
from odt.core.recipe.option_values import check_option
from odt.core.storage.reading import unwritable
from odt.dataclass import dataclass
from odt.errors import OdtError, OptionError
from odt.kernels.native.library import machine
from odt.kernels.native.target import planning_for
from odt.models.model import Model, Path, load_model
from odt.text import Printed, size
from odt.training import exports
from odt.training.option_forms import nbytes
from odt.training.session import Session
from odt.training.trainer import Trainer


@dataclass(frozen=True, slots=True)
class CProgram(Printed):
    """A folder with a C program that trains a model.

    Attributes:
        folder: the folder.
        name: prefix of its functions.
        batch_size: samples of a batch.
        micro_batch: samples that are computed at once.
        arena: bytes of activations, their gradients and workspace.
        weights: bytes of the weights that train.
        optimizer: bytes of optimizer state.
        gradients: bytes of gradients, and of rounded weights, outside the arena.
        stack: bytes of stack at most; None for a target of which this is unknown.
        calls: calls of kernels for a micro-batch of a training step.
        kernels: names of the kernels that it calls.
    """

    folder: str
    name: str
    batch_size: int
    micro_batch: int
    arena: int
    weights: int
    optimizer: int
    gradients: int
    stack: int | None
    calls: int
    kernels: tuple[str, ...]

    @property
    def memory(self) -> int:
        """Bytes of static memory."""
        return self.arena + self.weights + self.optimizer + self.gradients

    def __str__(self) -> str:
        """Returns the text of `odt compile`."""
        gradients = stack = parts = ""
        if self.gradients:
            gradients = f"gradients and rounded weights {size(self.gradients)}, "
        if self.stack:
            stack = f"; stack: at most {size(self.stack)}"
        if self.micro_batch < self.batch_size:
            parts = f" in micro-batches of {self.micro_batch}"
        return (
            f"{self.folder}: {self.calls} calls of {len(self.kernels)} kernels for a step of "
            f"{self.batch_size} samples{parts}\n"
            f"static memory: {size(self.memory)} (weights {size(self.weights)}, "
            f"optimizer {size(self.optimizer)}, {gradients}arena {size(self.arena)}){stack}\n"
            f"CMake builds {self.folder}/CMakeLists.txt; {self.name}.h says what its functions do"
        )


@checked_arguments
def compile(
    model: Model | Path,
    folder: Path,
    *,
    name: str = "",
    target: str = "generic",
    ram: int | str | None = None,
    stack: int | str | None = None,
    export: bool = True,
    **options: Any,
) -> CProgram:
    """Writes the training of a model as C: the program, the weights and the kernels that it calls.

    The program computes the bits that this package computes with one worker and
    `ODT_KERNELS=base`. It needs no Python, no operating system and no heap.

    Args:
        model: a model or the path of its file.
        folder: a new or an empty folder.
        name: prefix of the functions, a C identifier; that of the model file if left out.
        target: "generic" for any processor, "microcontroller" for one with little memory, such as
            a Cortex-M, or "wasm" for WebAssembly and JavaScript.
        ram: memory of the device for static memory and the stack, such as "256kB" or a number of
            bytes. Micro-batch, recomputation and order are chosen so that the program fits.
        stack: stack of the device, for target "microcontroller"; that which the program needs if
            left out.
        export: whether the program can write the trained model file, which it then contains.
        options: arguments of Trainer. The learning rate must be among them, or in the model.

    Raises:
        OptionError: if options contradict each other or the model, the program does not fit into
            `ram` or `stack`, or the folder has files.
        UnsupportedError: if parts of the training step have no compiled kernel, no kernels were
            compiled when odt was installed, or the compiler for WebAssembly is not installed.
        ModelError: if the model cannot be read.
        OdtError: if the folder cannot be written.
    """
    for option, remedy in {"workers": "", "memory_budget": "Give `ram=`."}.items():
        if options.get(option) is not None:
            rule = "must be left out: a C program has one worker, in static memory"
            raise OptionError(option, rule, options[option], remedy)
    check_option(COMPILE_OPTIONS["target"], target)
    device = Device(target, nbytes(ram, "ram"), nbytes(stack, "stack"))
    if target == "wasm":
        check_compiler()
    if name:
        check_name(name)
    _check_folder(folder)
    source = model if isinstance(model, Model) else load_model(model)
    with planning_for(machine(target)):
        session = Trainer(source, **options).session
        if session.rate_is_default:
            rule = "must be given, because `fit` chooses the default with the samples"
            raise OptionError("learning_rate", rule, None, "Give `learning_rate=`, such as 0.001.")

        def plan(budget: int | None) -> PlannedStep:
            micro_batch = options.get("micro_batch")
            if budget is None:
                micro_batch = micro_batch or session.recipe.info.batch_size
            division = {"micro_batch": micro_batch, "workers": 1, "memory_budget": budget}
            with Trainer(source, **{**options, **division}) as trainer:
                program = step_program(trainer.session.build(), source.path)
                return PlannedStep(program, trainer.session)

        program, planned = device.fit(plan)
        image = _image(planned, program) if export else None
    name = name or identifier(FilePath(source.path or "model").stem)
    files = project(program, name, target, version("odt"), image)
    web = for_javascript(program, name, files) if target == "wasm" else {}
    try:
        _write(FilePath(folder), {**files, **web})
    except OSError as e:
        raise OdtError(unwritable(os.fspath(folder), e, "folder")) from e
    return CProgram(
        folder=os.fspath(folder),
        name=name,
        batch_size=program.batch,
        micro_batch=program.micro_batch,
        arena=program.arena,
        weights=sum(a.values.nbytes for a in program.weights),
        optimizer=sum(a.values.nbytes for a in program.state),
        gradients=sum(a.values.nbytes for a in program.sums),
        stack=stack_nbytes(program, target),
        calls=len(program.train[-1].forward) + len(program.train[-1].backward),
        kernels=tuple(sorted(program.kernels)),
    )


def _image(session: Session, program: StepProgram) -> ModelImage:
    """Returns the file that the program exports.

    Raises:
        UnsupportedError: if it does not hold all weights as float32 or float16, or as integers
            that train.
    """
    arrays = [weights.values for weights in program.weights]
    tensors = session.build().parameters.tensors
    lowered = session.recipe.lowered
    if any(lowered.graph.tensors[i].places is not None for i in tensors):  # they are sparse
        raise not_exportable(session.model.path)
    changed = {i for i, a in tensors.items() if a.dtype.kind == "f"}
    forms: dict[int, StoredForm] = dict(stored_biases(lowered.part, changed))
    forms |= stored_halves(lowered.unrolled, lowered.dequantized)
    others = {k: forms[i] for k, i in enumerate(tensors) if i in forms}
    return model_image(partial(exports.export, session), arrays, others, session.model.path)


def _check_folder(folder: Path) -> None:
    """Raises OptionError if a folder has files."""
    path = FilePath(folder)
    # os.path.exists is false, too, if the folder of the path cannot be searched.
    if os.path.exists(path) and (not path.is_dir() or any(path.iterdir())):
        raise OptionError("folder", "must be a new or an empty folder", os.fspath(folder))


def _write(folder: FilePath, files: Mapping[str, str | bytes]) -> None:
    """Writes all files of a folder, or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        whole = FilePath(temporary) / folder.name
        for name, content in files.items():
            path = whole / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        if folder.exists():
            folder.rmdir()
        whole.rename(folder)
