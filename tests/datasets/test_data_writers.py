"""What gen-datafile writes, and odt reads back: raw, HDF5, NPZ, sidecars, in little memory."""

import contextlib
import hashlib
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from PIL import Image
from support.datafiles import files, made, odt, picture_folder, refused, samples, sidecar
from support.paths import MLP_SM, MODELS

from odt.core.data.columns import open_columns
from odt.datasets.download import PARTIAL, Remote, download
from odt.datasets.model_signature import ModelSignature
from odt.datasets.synthetic import Randomness, SyntheticData
from odt.errors import DataError
from odt.kernels.rows.opdef import TensorSpec

SINE = MODELS / "tflm-hello-world-sine-float.tflite"
RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
F32 = np.dtype(np.float32)
MAX_MEMORY = 300_000_000


@pytest.mark.parametrize("output", ["raw", "hdf5", "npz"])
def test_every_format_reads_back_the_same(tmp_path: Path, output: str) -> None:
    picture_folder(tmp_path / "s", 40)
    made("--source", tmp_path / "s", "--output-format", output, "-o", tmp_path / "o")
    ending = {"raw": "bin", "hdf5": "h5", "npz": "npz"}[output]
    path = tmp_path / f"o/train.input.{ending}"
    (column,) = open_columns(str(path), [TensorSpec((8, 6, 3), F32)], "input")
    got = np.empty((column.length, 144), F32)
    column.read(slice(None), got)
    grays = np.rint(got[:, 0] * 255).astype(int).tolist()
    assert len(grays) == 64
    assert set(grays) <= {*range(40), *range(100, 140)}
    content = sidecar(path)
    assert content["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert content["samples"] == 64
    assert content["balance"] == {"a": 32, "b": 32}


@pytest.mark.parametrize("output", ["raw", "hdf5", "npz"])
@pytest.mark.parametrize("scale", [(), ("--scale", "0..1"), ("--scale", "-1..1")])
def test_uint8_files_are_read_as_scaled_floats(
    tmp_path: Path, output: str, scale: tuple[str, ...]
) -> None:
    picture_folder(tmp_path / "s")
    options = ("--source", tmp_path / "s", "--output-format", output, *scale)
    said = made(*options, "--dtype", "uint8", "-o", tmp_path / "bytes").stdout
    assert f"uint8, read as {scale[-1] if scale else '0..1'}" in said
    made(*options, "-o", tmp_path / "floats")
    name = f"train.input.{ {'raw': 'bin', 'hdf5': 'h5', 'npz': 'npz'}[output] }"
    read = []
    for folder in ("bytes", "floats"):
        (column,) = open_columns(str(tmp_path / folder / name), [TensorSpec((144,), F32)], "input")
        some = np.empty((2, 8, 144), F32)
        column.read(slice(None), some[0])
        column.read(np.arange(8)[::-1], some[1])
        read.append(some)
    assert np.array_equal(read[0], read[1])
    assert read[0].min() != read[0].max() <= 1
    assert sidecar(tmp_path / "bytes" / name)["tensors"][0]["dtype"] == "uint8"


def test_bytes_without_a_scale_are_read_as_they_are(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    made("--source", tmp_path / "s", "--dtype", "uint8", "--scale", "none", "-o", tmp_path / "o")
    path = tmp_path / "o/train.input.bin"
    (column,) = open_columns(str(path), [TensorSpec((8, 6, 3), F32)], "input")
    got = np.empty((8, 144), F32)
    column.read(slice(None), got)
    assert np.array_equal(got, samples(path).reshape(8, 144))
    assert got.max() > 1


def test_a_scale_of_other_arrays_is_refused(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    made("--source", tmp_path / "s", "--dtype", "uint8", "--output-format", "npz",
         "-o", tmp_path / "o")  # fmt: skip
    path = tmp_path / "o/train.input.npz"
    np.savez(path, np.zeros((8, 8, 6, 3), np.float32))
    with pytest.raises(
        DataError,
        match=r"its JSON file says .* uint8, but the file holds .* "
        "float32",
    ):
        open_columns(str(path), [TensorSpec((8, 6, 3), F32)], "input")


def test_hdf5_is_chunked_little_endian_in_the_group_value(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    made("--source", tmp_path / "s", "--output-format", "hdf5", "-o", tmp_path / "o")
    with h5py.File(tmp_path / "o/train.input.h5") as f:
        data = f["value/0"]
        assert data.dtype == np.dtype("<f4")
        assert data.chunks is not None
        assert data.shape == (8, 8, 6, 3)


@pytest.mark.parametrize("output", ["raw", "hdf5", "npz"])
def test_runs_repeat_byte_for_byte(tmp_path: Path, output: str) -> None:
    picture_folder(tmp_path / "s")
    for run in "12":
        made("--source", tmp_path / "s", "--output-format", output, "-o", tmp_path / run)
    assert len(files(tmp_path / "1")) == 8
    for name in files(tmp_path / "1"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


BIG = """
import numpy as np
def samples(part):
    x = np.zeros((200, 200, 3), np.uint8)
    for k in range(800 if part == "train" else 2):
        x[k % 200] = k % 251
        yield (x, x[:100]), k % 2
samples.classes = ("even", "odd")
"""
RUN = """
import runpy, sys
sys.argv = ["odt", *sys.argv[1:]]
try:
    runpy.run_module("odt", run_name="__main__")
finally:
    # not ru_maxrss, which begins with what the parent had
    (peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print("peak", int(peak.split()[1]) * 1024)
"""


@pytest.mark.parametrize("output", ["raw", "hdf5", "npz"])
def test_memory_does_not_grow_with_the_set(tmp_path: Path, output: str) -> None:
    """576 MB are written, of two tensors."""
    (tmp_path / "big_samples.py").write_text(BIG)
    run = subprocess.run(
        [sys.executable, "-c", RUN, "gen-datafile", "--source", "big_samples:samples",
         "--output-format", output],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    ending = {"raw": "bin", "hdf5": "h5", "npz": "npz"}[output]
    assert (tmp_path / f"out/train.input.{ending}").stat().st_size > 570_000_000
    match = re.search(r"peak (\d+)", run.stdout)
    assert match is not None
    assert int(match[1]) < MAX_MEMORY


def test_a_model_gives_shape_and_channels_and_is_checked(tmp_path: Path) -> None:
    picture_folder(
        tmp_path / "s",
    )
    line = refused("--source", tmp_path / "s", "--like", RESNET, "-o", tmp_path / "o")
    assert re.search("output has 10 values, but train has 2 classes", line)
    assert "--classes 2, or merge classes with --label-map" in line
    picture_folder(tmp_path / "ten", 2, "abcdefghij")
    made("--source", tmp_path / "ten", "--like", RESNET, "-o", tmp_path / "o", "--split",
         "train=1.0")  # fmt: skip
    assert samples(tmp_path / "o/train.input.bin").shape == (20, 32, 32, 3)
    result = odt("predict", RESNET, "--load-input", tmp_path / "o/train.input.bin", "--top", 2)
    assert re.match(r"0: [a-j] \d\.\d{4}, [a-j] \d\.\d{4}\n1: ", result.stdout)


@pytest.mark.parametrize(
    ("shapes", "rule"),
    [
        ([(3,), (5,)], None),
        ([(3,)], None),  # the other output has no loss
        ([(3,), (4,)], "output 1 has 5 values, but target 1 of train has 4."),
        ([(4,), (5,)], "output 0 has 3 values, but target 0 of train has 4."),
        ([(3,), (5,), ()], "must have an output for each target, but has 2 for the 3 of train."),
    ],
)
def test_all_targets_are_those_of_the_outputs_of_a_model(
    shapes: list[tuple[int, ...]], rule: str | None
) -> None:
    x, a, b = (TensorSpec((n,), F32) for n in (2, 3, 5))
    signature = ModelSignature("m.tflite", (x,), (a, b))
    targets = [TensorSpec(shape, F32) for shape in shapes]
    with pytest.raises(DataError, match=re.escape(rule)) if rule else contextlib.nullcontext():
        signature.check("train", "features", [x], targets, 0)


def test_a_teacher_is_right_about_random_inputs(tmp_path: Path) -> None:
    model = tmp_path / "sine.tflite"
    model.write_bytes(SINE.read_bytes())
    result = made("random", "onert_run", model, "--data_length", 20, "--high", 6.28, "-i", "in")
    assert result.stdout.endswith("Generated input and output files\nDone\n")
    assert files(tmp_path) == [
        "sine.in.bin", "sine.in.bin.json", "sine.output.bin", "sine.output.bin.json",
        "sine.tflite",
    ]  # fmt: skip
    x, y = samples(tmp_path / "sine.in.bin"), samples(tmp_path / "sine.output.bin")
    assert len(np.unique(x)) == 20
    assert 0 <= x.min() < 1
    assert 5 < x.max() < 6.28
    runtime = Interpreter(str(SINE))
    runtime.allocate_tensors()
    for a, b in zip(x, y, strict=True):
        runtime.set_tensor(runtime.get_input_details()[0]["index"], a[None])
        runtime.invoke()
        expected = runtime.get_tensor(runtime.get_output_details()[0]["index"])
        assert np.allclose(expected, b, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "least", "most"),
    [
        ("int32", 0, 1, 0, 9),
        ("int32", 10.2, 10.9, 10, 10),
        ("int8", -1000, 1000, -128, 127),
        ("uint8", -5, 1000, 0, 255),
        ("bool", 0, 1, 0, 1),
    ],
)
def test_random_integers_stay_in_their_dtype(
    dtype: str, low: float, high: float, least: int, most: int
) -> None:
    data = SyntheticData([TensorSpec((5000,), np.dtype(dtype))], Randomness(low, high))
    (x,) = data.sample(0)
    assert (int(x.min()), int(x.max())) == (least, most)


@pytest.mark.parametrize("name", ["mlperf-tiny-kws-dscnn-hybrid", "recommendation-rnn-lstm"])
def test_train_takes_what_a_model_makes_of_random_inputs(tmp_path: Path, name: str) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes((SINE.parent / f"{name}.tflite").read_bytes())
    assert odt("gen-datafile", "random", model, "--data-length", 4).exit_code == 0
    data = ["--load-input", tmp_path / "m.input.bin", "--load-expected", tmp_path / "m.output.bin"]
    options = ["--loss", "mean-squared-error", "--batch-size", 2, "--epochs", 1]
    result = odt("train", model, *data, *options)
    assert result.exit_code == 0, result.stderr
    assert "Epoch 1/1" in result.stdout


def test_show_describes_a_file_and_draws_its_samples(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    made("--source", tmp_path / "s", "-o", tmp_path / "o")
    sheet = tmp_path / "sheet.png"
    result = odt("data", "show", tmp_path / "o/train.input.bin", "--sheet", sheet)
    assert result.exit_code == 0
    assert "8 samples of (8, 6, 3) float32" in result.stdout
    assert "  scale: to 0..1\n" in result.stdout
    with Image.open(sheet) as picture:
        assert picture.size == (4 + 3 * 100, 4 + 3 * 114)
        assert len(set(picture.convert("L").tobytes())) > 5
    result = odt("data", "show", tmp_path / "o/train.output.bin")
    assert "classes: a 4, b 4" in result.stdout


def test_show_counts_a_number_as_one_sample_and_leaves_words_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", step=np.int64(7), name=np.array("adam"), w=np.ones((2, 3)))
    result = odt("data", "show", tmp_path / "x.npz")
    assert result.exit_code == 0
    assert "step: 1 sample of () int64\n  range 7 … 7" in result.stdout
    assert "w: 2 samples of (3,) float64" in result.stdout
    assert "name" not in result.stdout
    np.savez(tmp_path / "words.npz", name=np.array("adam"))
    result = odt("data", "show", tmp_path / "words.npz")
    assert result.exit_code == 1
    assert "must hold arrays of numbers" in result.stderr


def test_show_finds_what_is_wrong(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    x[1, 0], x[2, 1], x[:, 2] = np.nan, np.inf, 7
    np.save(tmp_path / "x.npy", x)
    result = odt("data", "show", tmp_path / "x.npy")
    assert result.exit_code == 1
    assert "1 values are NaN, 1 infinite" in result.stdout
    assert "1 of 3 values never change: 2" in result.stdout
    assert "range 0 … 10" in result.stdout
    (tmp_path / "y.bin").write_bytes(np.eye(3, dtype=np.float32)[[0, 2, 2]].tobytes())
    assert "--shape" in odt("data", "show", tmp_path / "y.bin").stderr
    result = odt("data", "show", tmp_path / "y.bin", "--shape", "3")
    assert "classes: 0 1, 1 0, 2 2" in result.stdout
    assert "classes without samples: 1" in result.stdout
    assert odt("data", "show", tmp_path / "none.bin").exit_code == 1


def test_show_takes_several_files(tmp_path: Path) -> None:
    for name, value in (("x", 1.0), ("y", np.nan)):
        np.save(tmp_path / f"{name}.npy", np.full((4, 2), value, np.float32))
    result = odt("data", "show", tmp_path / "x.npy", tmp_path / "y.npy")
    assert result.exit_code == 1  # one has invalid values
    assert f"{tmp_path}/x.npy" in result.stdout
    assert f"{tmp_path}/y.npy" in result.stdout
    assert "8 values are NaN" in result.stdout
    both = (tmp_path / "x.npy", tmp_path / "y.npy", "--sheet", tmp_path / "s.png")
    assert "--sheet: must be given with one FILE, but got 2." in odt("data", "show", *both).stderr


def test_show_says_what_a_table_or_a_model_is(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b,label\n" + "1.5,2.5,0\n" * 9)
    table = odt("data", "show", tmp_path / "x.csv").stderr
    assert "it is a text file. Convert it to data files: odt gen-datafile --source" in table
    model = odt("data", "show", MLP_SM / "model.circle").stderr
    assert "it is a model. See its tensors with: odt inspect" in model


CONTENT = bytes(range(256)) * 4000
# Answers of a server that is not well: path → status and a header.
HEADERS = {
    "/length": (200, "Content-Length", "many"),
    "/negative": (200, "Content-Length", "-5"),
    "/terabytes": (200, "Content-Length", str(10**13)),
    "/location": (302, "Location", "http://[::1/x"),
    "/elsewhere": (302, "Location", "file:///etc/hostname"),
    "/port": (302, "Location", "http://127.0.0.1:port/x"),
    "/endless": (200, "X-Length", "none"),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, from a byte on if asked; /cut ends too early, once."""

    cut = True

    def do_GET(self) -> None:
        if self.path == "/none":
            self.send_error(404)
            return
        if self.path in HEADERS:
            status, name, value = HEADERS[self.path]
            self.send_response(status)
            self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):  # the client has hung up
                for _ in range(100):
                    self.wfile.write(CONTENT)
            return
        asked = self.headers.get("Range")
        first = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(CONTENT) - first))
        self.end_headers()
        ends = len(CONTENT) // 2 if self.path == "/cut" and Handler.cut else len(CONTENT)
        Handler.cut = Handler.cut and self.path != "/cut"
        self.wfile.write(CONTENT[first:ends])

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


def fetch(url: str, folder: Path, md5: str = hashlib.md5(CONTENT).hexdigest()) -> list[int]:
    steps: list[int] = []
    download([Remote(url, md5)], folder, lambda name, done, total: steps.append(done))
    return steps


def test_an_interrupted_download_resumes(tmp_path: Path, server: str) -> None:
    Handler.cut = True
    with pytest.raises(DataError, match=r"must be downloaded.*the download resumes"):
        fetch(f"{server}/cut", tmp_path)
    assert files(tmp_path) == [f"cut{PARTIAL}"]
    steps = fetch(f"{server}/cut", tmp_path)
    assert steps[0] > len(CONTENT) // 2
    assert (tmp_path / "cut").read_bytes() == CONTENT
    assert fetch(f"{server}/cut", tmp_path) == []  # it is there


def test_a_download_of_other_bytes_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(DataError, match="must have the published md5 0000"):
        fetch(f"{server}/file", tmp_path, "0000")
    assert files(tmp_path) == []
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(DataError, match="md5"):
        fetch(f"{server}/file", tmp_path)
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("path", HEADERS)
def test_a_server_that_is_not_well_is_one_line(
    path: str, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A download ends at its bound, and not when the disk is full."""
    monkeypatch.setattr("odt.datasets.download.MAX_BYTES", 3 * len(CONTENT))
    with pytest.raises(DataError, match=f"{server}{path}: must be downloaded, but got") as e:
        fetch(f"{server}{path}", tmp_path)
    assert str(e.value).isprintable()
    assert all(p.stat().st_size <= 3 * len(CONTENT) for p in tmp_path.iterdir())


def test_no_network_is_one_line(tmp_path: Path, server: str) -> None:
    for url in (f"{server}/none", "http://127.0.0.1:1/file"):
        with pytest.raises(DataError, match=f"{url}: must be downloaded, .*yourself"):
            fetch(url, tmp_path)
