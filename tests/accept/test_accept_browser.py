"""The page that trains in the browser, built by its command and used in Debian's Chromium."""

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.chromium import MISSING, PROGRAM, Chromium, served
from support.judges import litert
from support.paths import ROOT

import odt
from odt.datasets.picture_files import decode_picture
from odt.datasets.pictures import Resize
from odt.datasets.sounds import Sound
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

BATCH = 16
HELD_BACK = 5
PHOTOS = Resize(96, 96, "bilinear", "crop")
SOUNDS = Sound(rate=8000, mel=40, frame=256, hop=128, frames=60, low=100.0, high=4000.0)
MAX_TASK = 50  # milliseconds


@dataclass(frozen=True)
class Page:
    """The page, and the networks as they were before training, by name."""

    folder: Path
    networks: Mapping[str, Path]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    if not PROGRAM:
        pytest.fail(MISSING, False)
    if find_spec("ziglang") is None:
        pytest.fail("ziglang: must be installed, but is not. pip install 'odt[wasm]'", False)
    folder = tmp_path_factory.mktemp("page") / "site"
    work = folder.parent / "work"
    command = "examples/browser/build.py", "--out", folder, "--keep", work
    subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, check=True)
    return Page(folder, {name: work / f"{name}.tflite" for name in ("photos", "sounds")})


def files_of(archive: str, prefix: str, folder: Path) -> dict[str, list[Path]]:
    """Extracts the samples of an archive of examples/data; returns the files of each class."""
    classes: dict[str, list[Path]] = {}
    with zipfile.ZipFile(ROOT / "examples/data" / archive) as data:
        for name in sorted(n for n in data.namelist() if n.startswith(prefix) and n[-1] != "/"):
            path = Path(data.extract(name, folder))
            classes.setdefault(path.parent.name, []).append(path)
    return classes


def choose(browser: Chromium, task: str, classes: Mapping[str, Sequence[Path]]) -> None:
    """Chooses a task, and names classes and gives them files."""
    browser.run(f"document.querySelector('input[value={task}]').click()")
    browser.wait_for(
        "document.querySelector('.class') && !document.querySelector('#train').disabled"
    )
    for k, (name, files) in enumerate(classes.items()):
        card = f"document.querySelectorAll('.class')[{k}]"
        browser.run(f"{card}.querySelector('input').focus()")
        browser.send("Input.insertText", text=name)
        browser.choose_files(f".class:nth-child({k + 1}) .files", files)
        browser.wait_for(f"{card}.querySelector('.count').textContent.startsWith('{len(files)} ')")


def train(browser: Chromium, epochs: int) -> None:
    browser.run(f"document.querySelector('#epochs').value = {epochs}")
    browser.run("document.querySelector('#train').click()")
    browser.wait_for("!document.querySelector('#train').disabled")
    assert browser.run("document.querySelector('#problem').textContent") == ""
    assert text_of(browser, "#status").startswith(f"Done. Epoch {epochs} of {epochs}, loss ")


def text_of(browser: Chromium, selector: str) -> str:
    return str(browser.run(f"document.querySelector('{selector}').textContent"))


def confusion(browser: Chromium) -> Array:
    """The table of true and predicted classes."""
    rows = "[...document.querySelectorAll('#confusion tbody tr')]"
    cells = f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.textContent))"
    return np.array(browser.run(cells))


def download(browser: Chromium, folder: Path, name: str) -> Path:
    folder.mkdir()
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.run("document.querySelector('#download').click()")
    path, end = folder / name, time.monotonic() + 30
    while not path.is_file():
        assert time.monotonic() < end, [*folder.iterdir()]
        time.sleep(0.1)
    return path


def divided(classes: Sequence[Sequence[Array]], outputs: int) -> tuple[Array, Array, Array, Array]:
    """Inputs and targets for training and for testing, divided as the page says."""
    training: list[tuple[float, int, Array]] = []
    test: list[tuple[int, Array]] = []
    for label, inputs in enumerate(classes):
        rest = [x for k, x in enumerate(inputs) if k % HELD_BACK != HELD_BACK - 1]
        training += [((k + 0.5) / len(rest), label, x) for k, x in enumerate(rest)]
        test += [(label, x) for x in inputs[HELD_BACK - 1 :: HELD_BACK]]
    training.sort(key=lambda sample: sample[0])
    eye = np.eye(outputs, dtype=np.float32)
    return (
        np.stack([x for _, _, x in training]),
        eye[[label for _, label, _ in training]],
        np.stack([x for _, x in test]),
        eye[[label for label, _ in test]],
    )


@dataclass(frozen=True)
class Expected:
    """What odt trains on the same samples.

    Attributes:
        weights: trained weights, by name.
        outputs: probabilities of the test samples.
        confusion: numbers of test samples by true and predicted class.
    """

    weights: Mapping[str, Array]
    outputs: Array
    confusion: Array


def trained_by_odt(
    model: Path,
    classes: Sequence[Sequence[Array]],
    outputs: int,
    trainable: int | None,
    epochs: int,
) -> tuple[Expected, Array]:
    """Trains with odt; returns the result and the test samples."""
    x, y, x_test, y_test = divided(classes, outputs)
    options: dict[str, Any] = {"batch_size": BATCH, "workers": 1, "micro_batch": BATCH}
    with odt.Trainer(
        model,
        loss="categorical_crossentropy",
        optimizer=odt.Adam(1e-3),
        trainable=odt.last(trainable) if trainable else None,
        **options,
    ) as trainer:
        trainer.fit(x, y, epochs=epochs, shuffle=False)
        probabilities = trainer.predict(x_test)
        weights = {name: np.array(a) for name, a in trainer.weights.items()}
    table = np.zeros((outputs, outputs), int)
    np.add.at(table, (y_test.argmax(1), probabilities.argmax(1)), 1)
    return Expected(weights, probabilities, table), x_test


@pytest.fixture(autouse=True)
def base_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", "base")


def photo(data: bytes) -> Array:
    pixels, _ = decode_picture(data, PHOTOS)
    return pixels.astype(np.float32) / np.float32(255)


def check_download(path: Path, expected: Expected, x_test: Array, names: Sequence[str]) -> None:
    """Checks weights in bits, LiteRT's outputs, and the names of the classes."""
    model = odt.load_model(path)
    for name, values in expected.weights.items():
        np.testing.assert_array_equal(model.parameters[name], values)
    (outputs,) = litert(path, [x_test])
    np.testing.assert_allclose(outputs, expected.outputs, rtol=0, atol=1e-5)
    for name in names:
        assert json.dumps(name, ensure_ascii=False).encode() in path.read_bytes()


def check_page(browser: Chromium, url: str) -> None:
    """Checks that the page has asked only its server, and was never busy for long."""
    assert [r for r in browser.requests if not r.startswith((url, f"blob:{url}"))] == []
    assert browser.messages == []
    assert browser.longest_task() < MAX_TASK


def test_photos_train_as_odt_trains_them(page: Page, browser: Chromium, tmp_path: Path) -> None:
    """All photos: the decoder of JPEG is the browser's, so accuracy is compared."""
    classes = files_of("trash-photos.zip", "", tmp_path)
    assert [len(files) for files in classes.values()] == [100] * 4
    with served(page.folder) as site:
        browser.open(site.url)
        choose(browser, "photos", classes)
        train(browser, 20)
        table = confusion(browser)
        check_page(browser, site.url)
    inputs = [[photo(path.read_bytes()) for path in files] for files in classes.values()]
    expected, _ = trained_by_odt(page.networks["photos"], inputs, 4, 2, 20)
    assert table.sum(axis=1).tolist() == [20] * 4
    assert abs(int(np.trace(table)) - int(np.trace(expected.confusion))) <= 2
    assert np.trace(table) >= 58  # 72 %


def test_photos_without_loss_give_the_bits_of_odt(
    page: Page, browser: Chromium, tmp_path: Path
) -> None:
    """PNG has one decoding. Three of the four classes are used, and the last batch is short."""
    names = ['"brown" boxes', "glass & Glas", "métal"]
    classes: dict[str, list[Path]] = {}
    for name, files in zip(
        names, files_of("trash-photos.zip", "", tmp_path).values(), strict=False
    ):
        for path in files[:13]:
            target = path.with_suffix(".png")
            image = Image.open(path)
            image.crop((0, 0, 64, 50)).resize((131, 102)).save(target)
            classes.setdefault(name, []).append(target)
    with served(page.folder) as site:
        browser.open(site.url)
        choose(browser, "photos", classes)
        train(browser, 5)
        table = confusion(browser)
        path = download(browser, tmp_path / "downloads", "trained-photos.tflite")
        check_page(browser, site.url)
    inputs = [[photo(path.read_bytes()) for path in files] for files in classes.values()]
    expected, x_test = trained_by_odt(page.networks["photos"], inputs, 4, 2, 5)
    check_download(path, expected, x_test, names)
    np.testing.assert_array_equal(table, expected.confusion[:3, :3])


def test_sounds_train_a_whole_network_with_the_bits_of_odt(
    page: Page, browser: Chromium, tmp_path: Path
) -> None:
    classes: dict[str, list[Path]] = {"no": [], "yes": []}
    for part in ("train", "test"):
        for word, files in files_of("yes-no-sounds.zip", f"{part}/", tmp_path).items():
            classes[word] += files
    with served(page.folder) as site:
        browser.open(site.url)
        choose(browser, "sounds", classes)
        train(browser, 6)
        table = confusion(browser)
        path = download(browser, tmp_path / "downloads", "trained-sounds.tflite")
        check_page(browser, site.url)
    recipe = json.loads((page.folder / "sounds/recipe.json").read_text())
    mean, std = np.array(recipe["mean"]), np.array(recipe["std"])

    def spectrogram(path: Path) -> Array:
        values, _ = SOUNDS.decode(path.read_bytes())
        return np.asarray((values - mean) / std, np.float32)

    inputs = [[spectrogram(path) for path in files] for files in classes.values()]
    expected, x_test = trained_by_odt(page.networks["sounds"], inputs, 2, None, 6)
    check_download(path, expected, x_test, [*classes])
    np.testing.assert_array_equal(table, expected.confusion)
    assert np.trace(table) >= 31  # 70 % of 44


def test_the_page_works_offline_after_the_first_visit(
    page: Page, browser: Chromium, tmp_path: Path
) -> None:
    classes = {
        name: files[:10] for name, files in files_of("trash-photos.zip", "", tmp_path).items()
    }
    with served(page.folder) as site:
        browser.open(site.url)
        browser.wait_for("document.querySelector('#offline').textContent.includes('offline now')")
        site.stop()
        browser.open(site.url)
        choose(browser, "photos", classes)
        train(browser, 2)
        choose(browser, "sounds", {})
        assert browser.messages == []


def test_the_page_may_not_ask_other_hosts(page: Page, browser: Chromium) -> None:
    with served(page.folder) as site, served(page.folder) as other:
        browser.open(site.url)
        ask = f"fetch('{other.url}index.html', {{ mode: 'no-cors' }})"
        assert browser.run(f"{ask}.then(() => 'answer', () => 'none')") == "none"
        picture = f"Object.assign(new Image(), {{ src: '{other.url}icon.svg' }})"
        load = f"new Promise((end) => {{ const p = {picture}; p.onload = () => end('answer'); \
p.onerror = () => end('none'); }})"
        assert browser.run(load) == "none"
        assert other.requests == []


def test_a_wrong_file_gets_one_sentence(page: Page, browser: Chromium, tmp_path: Path) -> None:
    wrong = [tmp_path / name for name in ("a.txt", "b.jpg", "c.wav", "d.png", "<b>e</b>.gif")]
    for path in wrong[:3]:
        path.write_bytes(b"this is a text\n" * 100)
    wrong[3].write_bytes(b"")
    file = io.BytesIO()
    Image.new("RGB", (80, 80)).save(file, "PNG")
    good = tmp_path / "good.png"
    good.write_bytes(file.getvalue())
    with served(page.folder) as site:
        browser.open(site.url)
        choose(browser, "photos", {})
        for name in ("a.txt", "b.jpg"):
            browser.choose_files(".class .files", [good, tmp_path / name])
            browser.wait_for("document.querySelector('#problem').textContent")
            assert text_of(browser, "#problem") == (
                "Only photos that this browser can show, such as JPEG, PNG or WebP, can be used, "
                f"but not {name}."
            )
        assert text_of(browser, ".count") == "2 photos"
        browser.run("document.querySelector('#train').click()")
        browser.wait_for("document.querySelector('#problem').textContent.startsWith('At least')")
        assert text_of(browser, "#problem") == (
            "At least two classes with two or more photos are needed."
        )
        choose(browser, "sounds", {})
        assert text_of(browser, "#problem") == ""
        browser.choose_files(".class .files", wrong)
        browser.wait_for("document.querySelector('#problem').textContent")
        assert text_of(browser, "#problem") == (
            "Only sounds that this browser can play, such as WAV, MP3 or M4A, can be used, but not "
            "a.txt, b.jpg, c.wav and 2 more."
        )


def test_all_is_done_by_keyboard_and_has_a_name(
    page: Page, browser: Chromium, tmp_path: Path
) -> None:
    classes = {
        name: files[:6] for name, files in files_of("trash-photos.zip", "", tmp_path).items()
    }
    focus = "document.activeElement.id || document.activeElement.className.split(' ')[0] \
|| document.activeElement.value"
    with served(page.folder) as site:
        browser.open(site.url)
        choose(browser, "photos", classes)
        browser.run("document.querySelector('h1').tabIndex = -1")
        browser.run("document.querySelector('h1').focus()")
        order = []
        for _ in range(19):
            browser.press("Tab")
            order.append(browser.run(focus))
        card = ["class-name", "files", "capture", "clear"]
        assert order == ["photos", *card * 4, "epochs", "train"]
        browser.press("Enter")
        browser.wait_for("!document.querySelector('#download').disabled")
        assert browser.run(focus) == "train"  # as the button that stopped it can no longer be used
        order = []
        for _ in range(4):
            browser.press("Tab")
            order.append(browser.run(focus))
        assert order == ["scroll", "download", "try", "try-capture"]

        tree = browser.send("Accessibility.getFullAXTree")["nodes"]
        roles = ("button", "textbox", "spinbutton", "radio", "image", "progressbar", "table")
        nodes = [n for n in tree if not n["ignored"] and n["role"]["value"] in roles]
        names = [n["name"]["value"] for n in nodes]
        assert "" not in names
        for name in ("Add photos to glass", "Use the camera for metal", "Name of class 4", "Stop"):
            assert name in names
        live = browser.run("[...document.querySelectorAll('[role=status],[role=alert]')].length")
        assert live >= 4
        headings = browser.run(
            "[...document.querySelectorAll('h1,h2')].filter((h) => h.checkVisibility())"
            ".map((h) => h.localName + ' ' + h.textContent)"
        )
        assert headings == [
            *("h1 Train in the browser", "h2 What to learn from", "h2 Classes", "h2 Training"),
            "h2 Result",
        ]


@pytest.mark.parametrize("task", ["photos", "sounds"])
def test_camera_and_microphone_give_samples(page: Page, browser: Chromium, task: str) -> None:
    """Those of Chromium's tests: a moving picture and a beep."""
    with served(page.folder) as site:
        browser.open(site.url)
        choose(browser, task, {})
        for k in (0, 1):
            browser.run(f"document.querySelectorAll('.class .capture')[{k}].click()")
            browser.wait_for("document.querySelector('dialog').open")
            for count in (1, 2):
                browser.wait_for("!document.querySelector('#shoot').disabled")
                browser.run("document.querySelector('#shoot').click()")
                browser.wait_for(
                    f"document.querySelectorAll('.count')[{k}].textContent.startsWith('{count} ')"
                )
            browser.run("document.querySelector('#capture-done').click()")
            browser.wait_for("!document.querySelector('dialog').open")
        train(browser, 2)
        check_page(browser, site.url)


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_the_window(
    page: Page, browser: Chromium, tmp_path: Path, width: int, dark: bool
) -> None:
    classes = {
        name: files[:6] for name, files in files_of("trash-photos.zip", "", tmp_path).items()
    }
    with served(page.folder) as site:
        browser.open(site.url)
        browser.resize(width, 900, dark=dark)
        choose(browser, "photos", {"a" * 32: classes["glass"], "b" * 32: classes["paper"]})
        train(browser, 2)
        assert browser.run("document.documentElement.scrollWidth") <= width
        picture = np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("L"))
        assert picture.shape[1] in range(width - 20, width + 1)
        assert bool(np.median(picture) < 128) is dark
        for part in ("#chart polyline", "#confusion td", "#download"):
            box = browser.run(f"document.querySelector('{part}').getBoundingClientRect().width")
            assert box > 0
