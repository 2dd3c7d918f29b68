"""The inputs of the real networks excite them: ONNX Runtime, unoptimised, answers as it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db

from .conftest import network_file
from .inputs import DETECTION_LINES, GLIDE, TEXT, vad_frames
from .sound import mel_filters, speech
from .table import REAL, Inputs, Real, sizes

pytestmark = pytest.mark.real
onnxruntime = pytest.importorskip("onnxruntime")

BY_NAME = {real.name: real for real in REAL}
SILERO = [name for name in BY_NAME if name.startswith("silero") and not name.endswith("sequence")]
QUALITY = [name for name in BY_NAME if "mos" in name]


def session_of(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(name: str) -> tuple[Inputs, list[np.ndarray]]:
    inputs = BY_NAME[name].inputs()
    return inputs, session_of(network_file(BY_NAME[name])).run(None, inputs)


def test_inputs_are_the_same_at_each_call(real: Real) -> None:
    first, second = real.inputs(), real.inputs()
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_inputs_fit_the_declaration(real: Real, path: Path) -> None:
    network, inputs = db.load(path), real.inputs()
    assert set(inputs) == {spec.name for spec in network.inputs}
    fixed = network.with_sizes(sizes(network, inputs))
    assert {s.name: (s.shape, s.dtype) for s in fixed.inputs} == {n: (a.shape, a.dtype) for n, a in inputs.items()}


@pytest.mark.parametrize("name", SILERO)
def test_silero_hears_speech_and_no_speech_in_silence(name: str) -> None:
    session = session_of(network_file(BY_NAME[name]))
    rate = {"sr": np.asarray(16000, np.int64)} if "sr" in {i.name for i in session.get_inputs()} else {}

    def probabilities(audio: np.ndarray) -> np.ndarray:
        state, heard = np.zeros((2, 1, 128), np.float32), []
        for frame in vad_frames(audio):
            probability, state = session.run(None, {"input": frame[None], "state": state, **rate})
            heard.append(probability.item())
        return np.array(heard)

    assert np.median(probabilities(speech(2.0))) > 0.5
    assert probabilities(1e-4 * np.random.default_rng(0).normal(size=16000).astype(np.float32)).max() < 0.2


@pytest.mark.parametrize("name", SILERO)
def test_silero_tells_the_frames_of_a_batch_apart(name: str) -> None:
    _, (probability, _) = run(name)
    assert probability[0] > 0.5
    if len(probability) > 1:
        assert probability[2] < 0.1


def test_silero_sequence_hears_speech() -> None:
    _, (probability, *_) = run("silero_vad_16k_sequence")
    assert np.median(probability) > 0.5


def test_magika_knows_both_files() -> None:
    _, (probability,) = run("magika")
    python, json = 143, 87  # in target_labels_space of the package's config.min.json
    assert probability.argmax(1).tolist() == [python, json]
    assert probability.max(1).min() > 0.9


def test_detector_finds_each_line() -> None:
    _, (probability,) = run("ppocr_det")
    for x, y in DETECTION_LINES:
        assert probability[0, 0, y + 5 : y + 25, x + 5 : x + 60].max() > 0.6
    assert probability[0, 0, :, -20:].max() < 0.1
    assert 0.02 < (probability > 0.3).mean() < 0.5


def test_recogniser_reads_the_line() -> None:
    _, (probability,) = run("ppocr_rec")
    model = onnx.load(network_file(BY_NAME["ppocr_rec"]), load_external_data=False)
    listed = next(p.value for p in model.metadata_props if p.key == "character").splitlines()
    characters = ["", *listed, " "]
    assert len(characters) == probability.shape[2]
    best = probability[0].argmax(1)
    read = "".join(characters[i] for i, before in zip(best, [0, *best[:-1]], strict=True) if i != before)
    assert read == TEXT


def test_orientation_of_an_upright_and_a_turned_line() -> None:
    _, (probability,) = run("ppocr_cls")
    assert probability[:2].argmax(1).tolist() == [0, 1]
    assert 0.2 < probability[2, 0] < 0.8  # a softmax that is not saturated


def test_pitch_follows_the_glide() -> None:
    _, (pitch, confidence) = run("swift_f0")
    expected = np.linspace(*GLIDE, pitch.shape[1])
    inner = slice(5, -5)
    assert confidence[0, inner].min() > 0.5
    np.testing.assert_allclose(pitch[0, inner], expected[inner], rtol=0.03)


@pytest.mark.parametrize("name", QUALITY)
def test_quality_lies_on_the_scale_and_is_not_saturated(name: str) -> None:
    _, (score,) = run(name)
    scale = score[:2] if name.startswith("aecmos") else score  # the scenarioless network also gives two of its own
    assert np.all((scale > 1) & (scale < 5))


def test_dnsmos_hears_noise() -> None:
    real = BY_NAME["dnsmos_sig_bak_ovr"]
    session, inputs = session_of(network_file(real)), real.inputs()["input_1"]
    noise = np.random.default_rng(3).normal(0, 0.1, inputs.shape).astype(np.float32)
    (clean,), (noisy,) = (session.run(None, {"input_1": x}) for x in (inputs, inputs + noise))
    assert noisy[0, 1] < clean[0, 1] - 0.3  # the background


def test_mel_filters_have_equal_area_and_cover_the_band() -> None:
    filters = mel_filters(16000, 321, 40)
    assert filters.shape == (40, 161)
    wide = filters[20:]  # low ones are narrower than the grid resolves
    np.testing.assert_allclose(wide.sum(1) * 16000 / 321, 1, rtol=0.05)
    assert np.all(np.diff(filters.argmax(1)) >= 0)
