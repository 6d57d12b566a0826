"""The page that trains in the browser: its files, its colors, and how it prepares samples."""

import importlib.util
import io
import json
import re
import shutil
import subprocess
import wave
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.paths import ROOT

from odt.core.formats.reader import read_model
from odt.core.model.record import ENTRY, parse_record
from odt.datasets.pictures import Resize
from odt.datasets.sounds import Sound
from odt.kernels.rows.opdef import Array

FOLDER = ROOT / "examples" / "browser"
PAGE = FOLDER / "page"
NODE = shutil.which("node") or ""
VOID = {"meta", "link", "input", "path", "circle", "br"}  # elements without an end
SOUND = Sound(rate=8000, mel=40, frame=256, hop=128, frames=60, low=100.0, high=4000.0)


class Elements(HTMLParser):
    """The elements of a page; fails if one is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str]]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.all.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag


@pytest.fixture(scope="module")
def html() -> Elements:
    return Elements((PAGE / "index.html").read_text("utf-8"))


def test_files_and_elements_that_the_page_names_exist(html: Elements) -> None:
    names = [a[key] for _, a in html.all for key in ("src", "href") if key in a]
    for script in PAGE.glob("*.js"):
        text = script.read_text("utf-8")
        names += re.findall(r'from "\./([^"]+)"', text)
        names += re.findall(r'(?:new Worker|register)\("([^"]+)"', text)
    assert len(names) > 10
    assert [name for name in names if not (PAGE / name).is_file()] == []

    ids = [a["id"] for _, a in html.all if "id" in a]
    assert len(set(ids)) == len(ids)
    page = (PAGE / "page.js").read_text("utf-8") + (PAGE / "capture.js").read_text("utf-8")
    references = re.findall(r'\$\("([^"]+)"\)', page)
    references += [a["aria-labelledby"] for _, a in html.all if "aria-labelledby" in a]
    assert set(references) <= set(ids)


def test_the_page_names_no_other_host(html: Elements) -> None:
    for path in PAGE.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|wss?:|//[a-z]+\.", text), path
    policy = next(a["content"] for _, a in html.all if a.get("http-equiv"))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert set(" ".join(rules.values()).split()) == {"'none'", "'self'", "'wasm-unsafe-eval'"}


def contrast(a: str, b: str) -> float:
    """Ratio of the luminances of two colors, #rrggbb, as WCAG 2 defines it."""

    def luminance(color: str) -> float:
        values = np.frombuffer(bytes.fromhex(color[1:]), np.uint8) / 255
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_texts_and_edges_have_enough_contrast_in_light_and_dark() -> None:
    css = (PAGE / "style.css").read_text("utf-8")
    themes = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in css.split("@media")]
    assert len(themes) == 2
    for theme in themes:
        for text in ("ink", "soft", "problem", "accent", "test"):
            for back in ("paper", "card"):
                assert contrast(theme[text], theme[back]) >= 4.5, (text, back)
        assert contrast(theme["on-accent"], theme["accent"]) >= 4.5
        assert contrast(theme["edge"], theme["card"]) >= 3


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build command, which compiles nothing."""
    spec = importlib.util.spec_from_file_location("browser_page", FOLDER / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def compile_network(model: Path, folder: Path, recipe: Mapping[str, Any], *_: str) -> None:
        folder.mkdir()
        shutil.copy(model, folder)
        (folder / "recipe.json").write_text(json.dumps(recipe))

    monkeypatch.setattr(module, "compile_network", compile_network)
    return module


def test_the_build_command_writes_networks_and_a_list_of_all_files(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["build.py", "--photo-classes", "5", "--out", str(tmp_path / "site")]
    monkeypatch.setattr("sys.argv", words)
    build.main()
    site = tmp_path / "site"
    files = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    text = (site / "service-worker.js").read_text("utf-8")
    (listed,) = re.findall(r"FILES = (\[.*\]);", text)
    assert {*json.loads(listed)} == files - {"service-worker.js"} | {"./"}
    assert re.search(r'VERSION = "[0-9a-f]{16}"', text)

    for kind, shape, names in (("photos", (96, 96, 3), 5), ("sounds", (60, 40), 2)):
        model = read_model(str(site / kind / f"{kind}.tflite"))
        recipe = json.loads((site / kind / "recipe.json").read_text("utf-8"))
        assert model.graph.tensors[model.graph.inputs[0]].spec.shape[1:] == shape
        assert model.graph.tensors[model.graph.outputs[0]].spec.shape[1:] == (names,)
        assert recipe["classes"] == names
        if NODE:
            new = ['"quoted" é', "玻" * 32, "", "b", "c"][:names]
            assert rename(site / kind / f"{kind}.tflite", new) == new


def test_the_build_command_replaces_no_folder_of_others(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").touch()
    monkeypatch.setattr("sys.argv", ["build.py", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as e:
        build.main()
    assert e.value.code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def rename(path: Path, names: list[str]) -> list[str]:
    """The classes in a model file after the page has written them."""
    script = f"""
        import fs from "node:fs";
        import {{ nameClasses }} from "{PAGE / "record.js"}";
        const bytes = new Uint8Array(fs.readFileSync("{path}"));
        nameClasses(bytes, {json.dumps(names)});
        fs.writeFileSync("{path}", bytes);
    """
    run(script)
    model = read_model(str(path))
    return [*parse_record("model", bytes(model.buffer(model.metadata[ENTRY]))).classes]


def run(script: str) -> None:
    """Runs a module of JavaScript."""
    subprocess.run(
        [NODE, "--input-type=module", "--eval", script], check=True, cwd=PAGE, capture_output=True
    )


@pytest.mark.skipif(not NODE, reason="no node")
@pytest.mark.parametrize("size", [(64, 64), (200, 150), (90, 110), (97, 96), (30, 20)])
def test_photos_have_the_pixels_that_odt_gives_them(size: tuple[int, int], tmp_path: Path) -> None:
    width, height = size
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 4), np.uint8)
    pixels.tofile(tmp_path / "in")
    run(f"""
        import fs from "node:fs";
        import {{ resize, scaled }} from "{PAGE / "photos.js"}";
        const data = new Uint8ClampedArray(fs.readFileSync("{tmp_path / "in"}"));
        const input = scaled(resize({{ data, width: {width}, height: {height} }}, 48, 40));
        fs.writeFileSync("{tmp_path / "out"}", input);
    """)
    fit = Resize(40, 48, "bilinear", "crop")
    expected = np.asarray(fit.apply_to_image(Image.fromarray(pixels[..., :3])), np.float32)
    result = np.fromfile(tmp_path / "out", np.float32).reshape(40, 48, 3)
    np.testing.assert_array_equal(result, expected / np.float32(255))


def wave_file(rate: int, channels: int, width: int) -> bytes:
    """A WAV file of 0.9 seconds of noise that becomes louder."""
    shape = round(0.9 * rate), channels
    loudness = np.linspace(0.01, 0.3, shape[0])[:, None]
    x = np.random.default_rng(2).normal(size=shape) * loudness
    data = np.clip(x * 2**31, -(2**31), 2**31 - 1).astype("<i4")
    upper = data.view(np.uint8).reshape(-1, 4)[:, 4 - width :].copy()
    if width == 1:
        upper ^= np.uint8(0x80)  # integers of 8 bits have no sign
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, width, rate, 0, "NONE", ""))
        out.writeframes(upper.tobytes())
    return file.getvalue()


def spectrogram(data: bytes, folder: Path) -> Array:
    """The standardized spectrogram that the page makes of a WAV file."""
    (folder / "in").write_bytes(data)
    run(f"""
        import fs from "node:fs";
        import {{ readWave, spectrogram, standardized }} from "{PAGE / "sounds.js"}";
        const file = new Uint8Array(fs.readFileSync("{folder / "in"}"));
        const values = spectrogram(readWave(file.buffer), {json.dumps(SOUND.describe())});
        fs.writeFileSync("{folder / "out"}", standardized(values, [-40, -30], [20, 10]));
    """)
    return np.fromfile(folder / "out", np.float32).reshape(60, 40)


@pytest.mark.skipif(not NODE, reason="no node")
@pytest.mark.parametrize(("channels", "width"), [(1, 1), (1, 2), (2, 2), (1, 3), (3, 4)])
def test_sounds_have_the_values_that_odt_gives_them(
    channels: int, width: int, tmp_path: Path
) -> None:
    data = wave_file(SOUND.rate, channels, width)
    expected, _ = SOUND.decode(data)
    mean, std = np.tile([-40, -30], 20), np.tile([20, 10], 20)
    result = spectrogram(data, tmp_path)
    np.testing.assert_allclose(result, (expected - mean) / std, rtol=0, atol=1e-6)
    assert result.std() > 0.3


@pytest.mark.skipif(not NODE, reason="no node")
@pytest.mark.parametrize("rate", [44100, 16000, 6000])
def test_sounds_of_other_rates_are_resampled_as_odt_does(rate: int, tmp_path: Path) -> None:
    data = wave_file(rate, 1, 2)
    expected, _ = SOUND.decode(data)
    mean, std = np.tile([-40, -30], 20), np.tile([20, 10], 20)
    result = spectrogram(data, tmp_path)
    np.testing.assert_allclose(result, (expected - mean) / std, rtol=0, atol=1e-4)
