"""Recipe files: the options of `odt train` as TOML, read by --config, written by --print-config."""

import json
import os
import re
from typing import Any, TypeAlias

import click

import odt
from odt.cli.options.onert import spelled_as_one
from odt.cli.options.sections import RAW_VALUES, RECIPE, RUNS, combine, option, usual_name
from odt.cli.options.types import ClassWeights, OutputPath
from odt.core.storage.reading import printable, reading
from odt.errors import OdtError
from odt.runs.recipe import parse_recipe

Recipe: TypeAlias = dict[str, object]  # values by key, as in the file

# Parameters that are not in recipes: they name a recipe or a run.
NO_KEYS = {"config", "print_config", "run_dir"}
NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?(e[+-]?\d{1,3})?", re.IGNORECASE)


def read_config(ctx: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Makes the values of a recipe the defaults of the options."""
    if path is not None:
        ctx.meta[RECIPE] = path
        ctx.default_map = read_recipe(path, ctx.command)
    return path


recipe_options = combine(
    option(
        RUNS,
        "--config",
        type=click.Path(),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=read_config,
        help="Read options from a recipe: a TOML file whose keys are option names and `model`. "
        "Options on the command line override it. Paths in it are relative to its folder. Files to "
        "write and custom losses must be on the command line.",
    ),
    option(
        RUNS,
        "--print-config",
        is_flag=True,
        help="Print the recipe of this command line, and exit.",
    ),
)


def keys_of(command: click.Command) -> dict[str, click.Parameter]:
    """Returns parameters by their keys in a recipe; the usual key of a parameter is first."""
    keys: dict[str, click.Parameter] = {}
    for parameter in command.params:
        if parameter.name in NO_KEYS or not parameter.expose_value:
            continue
        for name in parameter.opts:
            if name.startswith("--") or name == parameter.name:  # an option, or an argument
                keys[name.lstrip("-")] = parameter
    return keys


def read_recipe(path: str, command: click.Command) -> dict[str, str | bool | list[str]]:
    """Reads a recipe; returns its values by parameter.

    Args:
        path: path of the TOML file; paths in it are relative to its folder.
        command: command with the options of the recipe.

    Raises:
        OdtError: if the file cannot be read, has an unknown key, or a value has the wrong type.
    """
    import difflib

    keys = keys_of(command)
    values: dict[str, str | bool | list[str]] = {}
    for name, value in parse_recipe(path).items():
        key = name.replace("_", "-")
        if key not in keys:
            close = difflib.get_close_matches(key, keys, n=1)
            hint = f"Did you mean {close[0]}?" if close else "odt train --help lists the options."
            raise OdtError(
                f"{path}: keys must be options of odt train, but got {printable(name)}. {hint}"
            )
        parameter = keys[key]
        with reading(f"{path}: {name}", "must be a value of an option", OdtError):
            parsed = _value(f"{path}: {name}", value, parameter)
        if isinstance(parsed, str) and is_path(parameter, parsed):
            parsed = os.path.join(os.path.dirname(path), parsed)
        values[str(parameter.name)] = parsed
    return values


def _value(where: str, value: object, parameter: click.Parameter) -> str | bool | list[str]:
    """Converts a value to the form that Click accepts: a bool, or texts as on the command line."""
    if parameter.multiple:
        items = value if isinstance(value, list) else [value]
        return [_text(where, item) for item in items]
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if not isinstance(value, bool):
            raise OdtError(f"{where}: must be true or false, but got {_json(value)}.")
        return value
    return _text(where, value)


def _text(where: str, value: object) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise OdtError(f"{where}: must be a string or a number, but got {_json(value)}.")
    if "\0" in str(value):
        raise OdtError(f"{where}: must have no null byte, but got {_json(value)}.")
    return str(value)


def _json(value: object) -> str:
    return printable(json.dumps(value, default=str))


def recipe_of(ctx: click.Context) -> Recipe:
    """Returns the recipe of a command line: keys and values, with absolute paths.

    Files to write are left out: `outputs_of` returns them.

    Raises:
        OdtError: if the command line is in ONE's spelling, because some of its behavior has no
            option.
    """
    if spelled_as_one():
        raise OdtError(
            "--print-config, --run-dir: must be given with odt's own option names, but got "
            "onert_train's. odt train --help lists both."
        )
    texts = ctx.meta.get(RAW_VALUES, {})
    keys = keys_of(ctx.command)
    usual_keys: dict[str, str] = {}  # by parameter
    for key, parameter in keys.items():
        usual_keys.setdefault(str(parameter.name), key)
    recipe: Recipe = {}
    for name, key in usual_keys.items():
        value = texts.get(name, ctx.params[name])
        if name not in texts and value in (None, (), "", False):
            continue
        if isinstance(keys[key].type, OutputPath):
            continue
        recipe[key] = os.path.abspath(value) if is_path(keys[key], value) else value
    return recipe


def outputs_of(ctx: click.Context) -> dict[str, str]:
    """Returns the files that a command line writes, as absolute paths by option."""
    return {
        usual_name(p): os.path.abspath(ctx.params[p.name])
        for p in ctx.command.params
        if isinstance(p.type, OutputPath) and p.name and ctx.params[p.name]
    }


def is_path(parameter: click.Parameter, value: Any) -> bool:
    """Whether a value is the path of a file; the value of --class-weight may be one."""
    if isinstance(parameter.type, ClassWeights):
        from odt.core.data.sample_weights import BALANCED

        return value != BALANCED and "=" not in value
    return isinstance(parameter.type, click.Path)


def recipe_text(recipe: Recipe, trainer: "odt.Trainer") -> str:
    """Returns a recipe as TOML; values that are left out follow as comments.

    Args:
        recipe: keys and values.
        trainer: trainer of the recipe, which has the values that are left out.
    """
    from odt.core.recipe.resolve import values_used

    prepared = trainer.session.recipe
    info = values_used(prepared.lowered.part.graph, prepared.info)
    used = {
        "loss": ", ".join(dict.fromkeys(loss.name.replace("_", "-") for loss in prepared.losses)),
        "reduction": info.reduction,
        "optimizer": info.optimizer,
        "learning_rate": info.learning_rate,
        **info.hyper_parameters,
        "batch_size": info.batch_size,
    }
    lines = [f"{key} = {toml(value)}" for key, value in recipe.items()]
    by_key = {name.replace("_", "-"): value for name, value in used.items()}
    others = {key: value for key, value in by_key.items() if key not in recipe}
    if others:
        lines += ["", "# Not given; values of the checkpoint, the model or odt's defaults:"]
    lines += [f"# {key} = {toml(value)}" for key, value in others.items()]
    return "\n".join(lines) + "\n"


def toml(value: object) -> str:
    """Returns a value as TOML; a text that is a number becomes a number."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    text = str(value)
    if NUMBER.fullmatch(text):
        return str(float(text)) if {*text} & {*".eE"} else text
    # A string in JSON is one in TOML, except that TOML escapes the control character DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
