"""Sounds of any rate and length: resampled, cut and counted; what is no WAV file is counted."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.datafiles import files, made, odt, refused, samples, sidecar, wav

from odt.datasets.sounds import Sound
from odt.kernels.rows.opdef import Array

ALL = ("--split", "train=1.0", "--no-shuffle", "--no-stratify", "--scale", "none")


def tone(rate: int, seconds: float = 1.0, hertz: float = 500.0) -> Array:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)


def folder(root: Path, **clips: bytes) -> Path:
    """A folder `a` of clips by name."""
    (root / "a").mkdir(parents=True)
    for name, data in clips.items():
        (root / f"a/{name.replace('_', '.')}").write_bytes(data)
    return root


def test_mixed_rates_and_channels_become_one_rate(tmp_path: Path) -> None:
    stereo = np.stack([tone(48000), 0.5 * tone(48000)], axis=1)
    root = folder(
        tmp_path / "s", a_wav=wav(tone(44100), 44100), b_wav=wav(stereo, 48000),
        c_wav=wav(tone(8000), 8000), d_WAV=wav(tone(16000)),
    )  # fmt: skip
    result = made("--source", root, *ALL, "-o", tmp_path / "o")
    x = samples(tmp_path / "o/train.input.bin")
    wanted = tone(16000)
    for row, loud in zip(x, (1, 0.75, 1, 1), strict=True):
        assert abs(row - loud * wanted)[200:-200].max() < 1e-4
    for rate, more in ((44100, ""), (48000, ""), (8000, ", which stays silent above 4000 Hz")):
        assert f"s: 1 of 4 files: resampled from {rate} to 16000 Hz{more}." in result.stderr
    assert sidecar(tmp_path / "o/train.input.bin")["sound"]["rate"] == 16000


def test_features_are_those_of_the_rate_that_is_asked_for() -> None:
    """Bands of a tone are the same, whatever the rate of the recording."""
    sound = Sound(mel=20, high=4000)
    of_phone, _ = sound.decode(wav(tone(44100), 44100))
    of_board, _ = sound.decode(wav(tone(16000), 16000))
    assert of_phone.shape == of_board.shape
    assert abs(of_phone - of_board)[1:-1].max() < 1.5  # dB; the window begins elsewhere by a sample
    assert (of_phone.argmax(axis=1) == of_board.argmax(axis=1)).all()


def test_clips_that_are_cut_are_counted(tmp_path: Path) -> None:
    root = folder(
        tmp_path / "s", a_wav=wav(tone(16000, 7.25)), b_wav=wav(tone(44100, 3), 44100),
        c_wav=wav(tone(16000, 0.5)),
    )  # fmt: skip
    result = made("--source", root, *ALL, "-o", tmp_path / "o")
    line = (
        "s: 2 of 3 files: cut to 1 s, the length of a sample (--seconds); the longest has 7.25 s."
    )
    assert line in result.stderr
    result = made("--source", root, *ALL, "--seconds", 8, "-o", tmp_path / "o")
    assert "cut to" not in result.stderr
    assert samples(tmp_path / "o/train.input.bin").shape == (3, 128000)


def test_frames_that_are_cut_are_counted() -> None:
    data = wav(tone(16000, 2.0))
    for frames, wanted in ((0, []), (124, []), (123, []), (60, ["cut to the first 60 of 124"])):
        values, remarks = Sound(seconds=2, mel=8, frames=frames).decode(data)
        assert len(values) == (frames or 124)
        assert [remark.text.split(" frames")[0] for remark in remarks] == wanted


def test_a_cut_clip_is_the_beginning_of_the_whole() -> None:
    data = wav(tone(44100, 3.0, 901.0), 44100)
    whole, _ = Sound(seconds=0).decode(data)
    cut, remarks = Sound(seconds=1).decode(data)
    assert np.array_equal(cut, whole[:16000])
    assert [remark.seconds for remark in remarks] == [0.0, 3.0]


def test_files_that_are_no_wav_are_counted_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    monkeypatch.setattr("odt.datasets.file_suffixes.has_soundfile", lambda: False)
    root = folder(
        tmp_path / "s", a_wav=wav(tone(16000)), b_mp3=b"ID3", c_mp3=b"ID3", d_m4a=b"", e_txt=b"x",
    )  # fmt: skip
    result = made("--source", root, *ALL, "-o", tmp_path / "o")
    assert (
        "s: left out 4 files other than sounds: 2 .mp3 (to read: pip install 'odt[sounds]'), "
        "1 .m4a (convert: ffmpeg -i OLD NEW.wav), 1 .txt." in result.stderr
    )
    (root / "a/a.wav").unlink()
    line = refused("--source", root, *ALL, "-o", tmp_path / "p")
    assert "with .wav files, but has none: it holds 2 .mp3 (to read: pip" in line
    (root / "a/b.wav").write_bytes(b"OggS" + bytes(99))
    remedy = "b.wav: must be read with soundfile, because it is Ogg: pip install 'odt[sounds]'"
    assert remedy in refused("--source", root, *ALL, "-o", tmp_path / "p")
    one = refused("--source", root / "a/b.mp3", "--unlabelled", *ALL, "-o", tmp_path / "p")
    assert "b.mp3: must be a sound that odt reads, but is .mp3 (to read: pip install" in one


def test_background_noise_is_no_class(tmp_path: Path) -> None:
    for name in ("yes", "no", "_background_noise_"):
        (tmp_path / "s" / name).mkdir(parents=True)
        (tmp_path / f"s/{name}/1.wav").write_bytes(wav(tone(16000)))
    result = made("--source", tmp_path / "s", *ALL, "-o", tmp_path / "o")
    assert "s: left out 1 file in _background_noise_: noise is no class." in result.stderr
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["no", "yes"]
    noise = tmp_path / "s/_background_noise_"
    made("--source", noise, "--unlabelled", *ALL, "-o", tmp_path / "n")
    assert len(samples(tmp_path / "n/train.input.bin")) == 1


def test_faults_are_separated_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clips = {f"{k}_wav": wav(tone(16000))[: -2 if k in (3, 7, 1) else None] for k in range(9)}
    root = folder(Path("s"), **clips)
    lines = {
        refused("--source", root, "--seed", seed, "--workers", 2, "-o", tmp_path / "o")
        for seed in range(3)
    }
    assert len(lines) == 1
    cut = "must have 32000 bytes of samples, as its header says, but has 31998: the file is cut off"
    shown = "; ".join(f"s/a/{k}.wav: {cut}" for k in (1, 3, 7))
    assert lines == {f"Error: 3 faults: {shown}. Give --on-error skip to leave these out."}
    result = made("--source", root, "--on-error", "skip", "-o", tmp_path / "o")
    reasons = [line.split("/a/")[1][0] for line in result.stderr.splitlines() if "cut off" in line]
    assert sorted(reasons) == ["1", "3", "7"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mel", 40, "--rate", 0), "--rate: must be above 0 with --mel, but got 0"),
        (
            ("--mel", 40, "--mel-range", "100"),
            "--mel-range: must be LOW,HIGH in Hz, such as 300,8000, but got 100.",
        ),
        (
            ("--mel", 40, "--rate", 8000, "--mel-range", "300,5000"),
            "must be between 0 and 4000 Hz, half of --rate 8000, but got 300 … 5000 Hz",
        ),
    ],
)
def test_options_that_contradict_are_named(
    tmp_path: Path, options: tuple[object, ...], words: str
) -> None:
    root = folder(tmp_path / "s", a_wav=wav(tone(16000)))
    assert words in refused("--source", root, *ALL, *options, "-o", tmp_path / "o")
    assert files(tmp_path / "o") == []


def test_a_model_hears_new_recordings_at_the_rate_of_its_training(tmp_path: Path) -> None:
    for name, hertz in (("high", 2000), ("low", 300)):
        (tmp_path / "s" / name).mkdir(parents=True)
        for k in range(8):
            clip = tone(16000, 0.25, hertz + 20 * k)
            (tmp_path / f"s/{name}/{k}.wav").write_bytes(wav(clip))
    given = ("--mel", 16, "--seconds", 0.25, "--scale", "standardize", "--split", "train=1.0")
    made("--source", tmp_path / "s", *given, "-o", tmp_path / "o")
    x, y = tmp_path / "o/train.input.bin", tmp_path / "o/train.output.bin"
    assert odt("new", "mlp", "--like", x, "-o", tmp_path / "m.tflite").exit_code == 0
    trained = odt(
        "train",
        tmp_path / "m.tflite",
        "--load-input",
        x,
        "--load-expected",
        y,
        "--epochs",
        30,
        "--seed",
        1,
        "--export-tflite",
        tmp_path / "t.tflite",
    )
    assert trained.exit_code == 0, trained.stderr
    made("--source", tmp_path / "s", "--like", tmp_path / "t.tflite", "--split", "train=1.0",
         "-o", tmp_path / "again")  # fmt: skip
    again = sidecar(tmp_path / "again/train.input.bin")
    for part in ("sound", "preprocessing"):
        wanted = [s for s in sidecar(x)[part] if s != {"step": "shape", "shape": [14, 16]}]
        assert [s for s in again[part] if s != {"step": "shape", "shape": [14, 16]}] == wanted
    for name, hertz in (("high", 2050), ("low", 330)):
        (tmp_path / "new" / name).mkdir(parents=True)
        stereo = np.stack([tone(44100, 0.4, hertz)] * 2, axis=1)
        (tmp_path / f"new/{name}/1.wav").write_bytes(wav(stereo, 44100))
    said = odt("predict", tmp_path / "t.tflite", "--source", tmp_path / "new", "--top", 1)
    assert said.exit_code == 0, said.stderr
    assert [line.split()[1] for line in said.stdout.splitlines()] == ["high", "low"]
    scored = odt(
        "eval", tmp_path / "t.tflite", "--source", tmp_path / "new", "--metric", "accuracy"
    )
    assert "accuracy: [0] 1.0000" in scored.stdout, scored.stderr
    for result in (said, scored):
        assert "new: 2 of 2 files: resampled from 44100 to 16000 Hz." in result.stderr
        assert "new: 2 of 2 files: cut to 0.25 s" in result.stderr


def test_a_model_of_a_waveform_gives_the_length_of_clips(tmp_path: Path) -> None:
    root = folder(tmp_path / "s", a_wav=wav(tone(48000, 3), 48000))
    (root / "b").mkdir()
    (root / "b/1.wav").write_bytes(wav(tone(8000, 3), 8000))
    made("--source", root, "--seconds", 0.975, *ALL, "-o", tmp_path / "d")
    x = tmp_path / "d/train.input.bin"
    new = odt("new", "mlp", "--like", x, "-o", tmp_path / "m.tflite")
    assert new.exit_code == 0, new.stderr
    args = ("--source", root, "--like", tmp_path / "m.tflite", *ALL, "-o", tmp_path / "o")
    made(*args)
    assert samples(tmp_path / "o/train.input.bin").shape == (2, 15600)
    assert "must become (15600,), but is (16000,)" in refused(*args, "--seconds", 1)


def test_faults_that_one_line_cannot_hold_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clips = {f"quiet-room-{k}_wav": wav(tone(16000))[: -2 if k else None] for k in range(13)}
    root = folder(Path("s"), **clips)
    line = refused("--source", root, "-o", "o")
    assert line.startswith("Error: 12 faults: ")
    shown, rest = line.removeprefix("Error: 12 faults: ").split("; … (")
    named = shown.split("; ")
    assert all(fault.startswith("s/a/quiet-room-") for fault in named)
    assert all(fault.endswith("31998: the file is cut off") for fault in named)
    assert rest == f"{12 - len(named)} more). Give --on-error skip to leave these out."
    every = odt("-v", "gen-datafile", "--source", root, "-o", "o").stderr
    assert all(f"quiet-room-{k}.wav: must have" in every for k in range(1, 13))


def test_skipping_is_no_remedy_if_no_sample_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = folder(Path("s"), **{f"{k}_wav": wav(tone(16000))[:-2] for k in range(3)})
    line = refused("--source", root, "-o", tmp_path / "o")
    assert line.startswith("Error: 3 faults: ")
    assert line.endswith("the file is cut off.")
    copies = "--augment", "noise=0.1", "--augment-factor", 3
    assert refused("--source", root, *copies, "-o", tmp_path / "o").startswith("Error: 3 faults: ")
