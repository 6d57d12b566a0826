"""Recipe files: --config and --print-config of `odt train`."""

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from support.paths import GOLDEN

from odt.cli.commands import train
from odt.cli.main import main
from odt.cli.options.recipe_file import keys_of
from odt.cli.options.types import OutputPath

FOLDER = GOLDEN / "mlp_sm"
RECIPE = """
model = "model.circle"
load-input = "input.bin"
load_expected = "expected.bin"
epochs = 3
shuffle = true
seed = 7
learning-rate = 0.01
metric = ["accuracy", "mean-absolute-error"]
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["train", *map(str, arguments)])


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    for name in ("model.circle", "input.bin", "expected.bin"):
        (tmp_path / name).symlink_to(FOLDER / name)
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def line(recipe: Path, *more: object) -> list[object]:
    """The command line that means the same as the recipe."""
    folder = recipe.parent
    data = ["--load-input", folder / "input.bin", "--load-expected", folder / "expected.bin"]
    words = "--epochs 3 --shuffle --seed 7 --learning-rate 0.01 --metric accuracy --metric"
    return [folder / "model.circle", *data, *words.split(), "mean-absolute-error", *more]


def test_a_recipe_trains_as_its_options_do(recipe: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.circle", tmp_path / "other.circle"
    done = run("--config", recipe, "--export-circle", one)
    assert done.exit_code == 0, done.output
    assert "mean_absolute_error: [0] " in done.stdout
    assert run(*line(recipe), "--export-circle", other).exit_code == 0
    assert one.read_bytes() == other.read_bytes()


def test_the_command_line_precedes_the_recipe(recipe: Path) -> None:
    done = run("--epochs", 1, "--config", recipe, "--no-shuffle", "--metric", "r2", "--seed", "x")
    assert done.exit_code == 2  # the seed of the command line counts, and is wrong
    recipe.write_text(RECIPE.replace("seed = 7", ""), encoding="utf-8")
    done = run("--epochs", 1, "--config", recipe, "--no-shuffle", "--metric", "mean-squared-error")
    assert "Epoch 1/1" in done.stdout
    assert "accuracy" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "--class-weight 0=1,1=5 --max-time 1h30m --memory-budget 64MB --ema 0.9",
        "--schedule cosine:alpha=0.1 --warmup 2 --learning-rate-of *=5e-7 --learning-rate-of F*=2",
        "--sparse FULLY*=0.25 --check-data --trainable * --cache-frozen disk",
        "--optimizer sgd --momentum 0.9 --nesterov --loss 2 --reduction sum --batch-size 0032",
        '--export-checkpoint a.odt --export-checkpoint-every epoch --property n=1 --property s=é"',
        "--class-weight balanced --validation-split 0.25 --keep-best --export-circle new.circle",
    ],
)
def test_a_printed_recipe_is_the_same_run(recipe: Path, words: str, tmp_path: Path) -> None:
    """It has the values of the command line, wherever it is read."""
    given: list[str] = []
    read: list[str] = []
    printed = run(*line(recipe, *words.split()), "--print-config")
    assert printed.exit_code == 0, printed.output
    again = tmp_path / "folder" / "again.toml"
    again.parent.mkdir()
    again.write_text(printed.stdout, encoding="utf-8")
    recipe_alone = printed.stdout.partition("\n# Files to write")[0]
    assert run("--config", again, "--print-config").stdout == recipe_alone
    for seen, arguments in ((given, line(recipe, *words.split())), (read, ["--config", again])):
        context = train.command.make_context("train", [str(a) for a in arguments])
        seen.extend(map(str, context.params.items()))
    differ = {
        item for item in set(given) ^ set(read) if not item.startswith(("('export_c", "('save_to"))
    }
    assert not differ


def test_values_that_are_left_out_are_printed_as_comments(recipe: Path) -> None:
    text = run("--config", recipe, "--print-config").stdout
    assert f'model = "{recipe.parent}/model.circle"\n' in text
    assert '# optimizer = "adam"\n' in text
    assert "# batch-size = 32\n" in text
    assert "learning-rate = 0.01\n" in text
    assert "# learning-rate" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lerning-rate = 1", "but got lerning-rate. Did you mean learning-rate?"),
        ("run-dir = 'x'", "keys must be options of odt train, but got run-dir."),
        ("epochs = true", "recipe.toml: epochs: must be a string or a number, but got true."),
        ("bias-only = 1", "recipe.toml: bias-only: must be true or false, but got 1."),
        ("[metric]\na = 1", "recipe.toml: metric: must be a string or a number, but got {"),
        ("epochs = 2.5", "recipe.toml: epochs: '2.5' is not a valid integer range."),
        ('loss = "a\\u001b[31mb"', "must be one of"),
        ('"a\\u001b[31m" = 1', "but got a\\x1b[31m."),
        (f"epochs = 0x{'f' * 5000}", "recipe.toml: must be a recipe in TOML, but got: Exceeds"),
        (
            f"epochs = {'[' * 5000}",
            "recipe.toml: must be a recipe in TOML, but got: maximum recursion",
        ),
        (f"# {'x' * (1 << 20)}", "must be a recipe in TOML of at most 1048576 bytes, but has more"),
        ("loss = 'hubr'", "Did you mean huber?"),
        ("epochs = ", "recipe.toml: must be a recipe in TOML, but got: Invalid value"),
    ],
)
def test_wrong_recipes_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    done = run(FOLDER / "model.circle", "--config", path)
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.startswith(f"Error: {path}: ")
    assert done.stderr[:-1].isprintable()


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    done = run("--config", tmp_path / "none.toml")
    assert done.exit_code == 1
    assert "none.toml: must be a recipe in TOML" in done.stderr


def test_weights_by_class_in_a_file_are_found_from_the_recipe(recipe: Path) -> None:
    (recipe.parent / "w.json").write_text('{"0": 2}', encoding="utf-8")
    with recipe.open("a") as file:
        file.write('class-weight = "w.json"\n')
    done = run("--config", recipe, "--print-config")
    assert f'class-weight = "{recipe.parent}/w.json"' in done.stdout


def test_command_lines_of_onert_train_have_no_recipe() -> None:
    done = run(FOLDER / "model.circle", "--epoch", 1, "--print-config")
    assert done.exit_code == 255
    assert "must be given with odt's own option names" in done.stderr


OUTPUTS = [k for k, p in keys_of(train.command).items() if isinstance(p.type, OutputPath)]


@pytest.mark.parametrize("key", OUTPUTS)
def test_a_recipe_names_no_file_to_write(recipe: Path, key: str, tmp_path: Path) -> None:
    """Whatever its extension or folder: the file is on the command line, or nothing is written."""
    victim = tmp_path / "victim.circle"
    victim.write_bytes(b"mine")
    with recipe.open("a") as file:
        file.write(f'{key} = "{victim}"\n')
    done = run("--config", recipe)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {recipe}: {key}: must be left out of a recipe")
    assert f"Give --{key} on the command line." in done.stderr
    assert victim.read_bytes() == b"mine"
    own = "o.csv" if key == "log" else "o.circle"
    if key in ("export-circle", "export-circleplus", "export-checkpoint", "log"):
        assert run("--config", recipe, f"--{key}", tmp_path / own).exit_code == 0
        assert (tmp_path / own).exists()
        assert victim.read_bytes() == b"mine"


def test_every_path_of_an_output_is_known_as_one() -> None:
    """An option whose help says that it writes a file has the type that recipes cannot set."""
    for parameter in train.command.params:
        if not isinstance(parameter, click.Option):
            continue
        text = parameter.help or ""
        writes = text.startswith(("Export ", "Save ", "Write "))
        if writes and not parameter.is_flag and parameter.name not in ("run_dir", "save_every"):
            assert isinstance(parameter.type, OutputPath), parameter.name


@pytest.mark.parametrize("key", ["loss", "output-loss"])
def test_a_recipe_imports_nothing(
    recipe: Path, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "marker_module", None)  # so that undoing removes the import
    del sys.modules["marker_module"]
    Path("marker_module.py").write_text("open('MARKER', 'w').close()\n")
    name = {"loss": "marker_module:loss", "output-loss": "0=marker_module:loss"}[key]
    with recipe.open("a") as file:
        file.write(f'{key} = "{name}"\n')
    for words in (["--config", recipe], ["--config", recipe, "--print-config"]):
        done = run(*words)
        assert done.exit_code == 1
        assert done.stderr.startswith(f"Error: {recipe}: {key}: marker_module:loss is a custom l")
        assert "must be given again on the command line" in done.stderr
        assert not Path("MARKER").exists()
    again = "mean-squared-error" if key == "loss" else "0=mean-squared-error"
    assert run("--config", recipe, f"--{key}", again, "--epochs", 1).exit_code == 0
    assert run("--config", recipe, f"--{key}", name).exit_code == 1  # it has no value and gradient
    assert Path("MARKER").exists()


def test_every_option_has_a_key() -> None:
    known = {p.name for p in keys_of(train.command).values()}
    hidden = {"config", "data_folder", "help_all", "print_config", "run_dir", "version"}
    assert {p.name for p in train.command.params} - known <= hidden
