"""One realistic input for each real network, prepared as the network's own package prepares it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from . import sound

Arrays = dict[str, np.ndarray]

# silero-vad: frames of 512 samples, each with the last 64 of the one before

FRAME, CONTEXT = 512, 64


def vad_frames(audio: np.ndarray) -> np.ndarray:
    """The frames of a sound at 16 kHz as silero-vad takes them, shaped (n, 576)."""
    padded = np.pad(audio[: len(audio) // FRAME * FRAME], (CONTEXT, 0))
    return np.lib.stride_tricks.sliding_window_view(padded, FRAME + CONTEXT)[::FRAME].copy()


def vad_batch() -> np.ndarray:
    """Four frames: two of a vowel, one of a pause, one where speech begins."""
    frames = vad_frames(sound.speech(3.0))
    energy = (frames**2).mean(1)
    loud, quiet = np.argsort(energy)[[-1, 0]]
    return frames[[loud, loud + 1, quiet, 0]]


def _state(*shape: int) -> np.ndarray:
    """A recurrent state as it is in the middle of speech; the first entry of a batch starts from zero, if there are more."""
    state = np.random.default_rng(0).uniform(-0.5, 0.5, shape).astype(np.float32)
    if shape[1] > 1:
        state[:, 0] = 0
    return state


def _silero(*, batch: bool = True, rate: bool = True) -> Arrays:
    frames = vad_batch() if batch else vad_batch()[:1]
    arrays = {"input": frames, "state": _state(2, len(frames), 128)}
    return arrays | ({"sr": np.asarray(16000, np.int64)} if rate else {})


def _silero_sequence() -> Arrays:
    frames = vad_frames(sound.speech(1.0))
    return {"input": frames, "h": _state(1, 1, 128), "c": _state(1, 1, 128)}


# magika: the first and the last 1,024 bytes of a file, padded with 256

PYTHON = '''#!/usr/bin/env python3
"""Count the words of a text."""

import sys
from collections import Counter


def count(lines):
    """Each word with how often it appears."""
    words = Counter()
    for line in lines:
        words.update(line.lower().split())
    return words


if __name__ == "__main__":
    for word, times in count(sys.stdin).most_common(10):
        print(f"{times:6d} {word}")
'''


def _json() -> str:
    rng = np.random.default_rng(0)
    rows = [{"id": i, "name": f"station {i}", "height": round(float(rng.uniform(0, 900)), 1)} for i in range(60)]
    return json.dumps({"unit": "m", "stations": rows}, indent=2)


def magika_tokens(content: bytes) -> np.ndarray:
    """The 2,048 tokens that magika makes of a file."""
    begin, end = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
    tokens = np.full(2048, 256, np.int32)
    tokens[: len(begin)] = list(begin)
    tokens[2048 - len(end) :] = list(end)
    return tokens


def _magika() -> Arrays:
    return {"bytes": np.stack([magika_tokens(PYTHON.encode()), magika_tokens(_json().encode())])}


# rapidocr: images scaled to [-1, 1], channels first

TEXT = "Hello 2026"


def text_image(lines: dict[tuple[int, int], str], width: int, height: int, size: int) -> Image.Image:
    """Dark text on light, slightly uneven paper."""
    rng = np.random.default_rng(0)
    shade = np.linspace(215, 250, width)[None, :, None] + rng.normal(0, 3, (height, width, 3))
    image = Image.fromarray(np.clip(shade, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for place, text in lines.items():
        draw.text(place, text, fill=(30, 25, 60), font=ImageFont.load_default(size))
    return image


def _pixels(image: Image.Image) -> np.ndarray:
    """Blue, green and red, as the package reads them with OpenCV."""
    scaled = np.asarray(image, np.float32)[:, :, ::-1] / np.float32(255)
    return ((scaled - np.float32(0.5)) / np.float32(0.5)).transpose(2, 0, 1)


DETECTION_LINES = {(12, 10): "Deep bench", (40, 62): TEXT, (20, 112): "right or wrong?"}


def _detection() -> Arrays:
    return {"x": _pixels(text_image(DETECTION_LINES, width=224, height=160, size=26))[None]}


def line_image(text: str = TEXT) -> Image.Image:
    """One line of text, 48 pixels high."""
    return text_image({(8, 2): text}, width=208, height=48, size=34)


def _recognition() -> Arrays:
    pixels = _pixels(line_image())
    return {"x": np.pad(pixels, ((0, 0), (0, 0), (0, 320 - pixels.shape[2])))[None]}


def _orientation() -> Arrays:
    """A line upright, the same line upside down, and one that reads nearly the same both ways."""
    upright, undecided = (_pixels(line_image(text).resize((192, 48))) for text in (TEXT, "xox oxo"))
    return {"x": np.stack([upright, upright[:, ::-1, ::-1], undecided])}


# swift-f0

GLIDE = (150.0, 300.0)
"""The fundamental frequency in Hz at the beginning and the end of the tone."""


def _gliding_tone() -> Arrays:
    rate, seconds = 16000, 1.0
    time = np.arange(round(rate * seconds)) / rate
    phase = 2 * np.pi * (GLIDE[0] * time + (GLIDE[1] - GLIDE[0]) * time**2 / (2 * seconds))
    tone = sum(np.sin(k * phase) / k for k in range(1, 9))
    audio = (0.2 * tone + np.random.default_rng(0).normal(0, 1e-3, len(time))).astype(np.float32)
    return {"audio": audio[None], "fmin": np.asarray(46.875, np.float32), "fmax": np.asarray(2093.75, np.float32)}


# speechmos

RATE = 16000


def _noisy(clean: np.ndarray, level: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, level, len(clean))
    return np.clip(clean + noise, -1, 1).astype(np.float32)


def _dnsmos_audio() -> Arrays:
    return {"input_1": _noisy(sound.speech(9.01), 5e-3, seed=1)[None]}


def _dnsmos_spectrum() -> Arrays:
    power = sound.power_spectrum(_noisy(sound.speech(9.0), 5e-3, seed=1), 320, 160)
    return {"input_1": np.log10(np.maximum(power, 1e-12)).astype(np.float32)[None]}


def _dnsmos_mel() -> Arrays:
    return {"input_1": sound.mel_decibels(_noisy(sound.speech(9.0), 5e-3, seed=1), RATE, 321, 160, 120)[None]}


def _plcmos() -> Arrays:
    audio = sound.speech(2.0).copy()
    audio[8000:8640] = 0  # two lost packets of 20 ms
    rater = np.random.default_rng(0).normal(size=(1, 64)).astype(np.float32)
    return {"degraded_audio": sound.log_power_dns(audio)[None, None], "rater_embed": rater}


def _aecmos(*, rate: int, hidden: int, marked: bool) -> Arrays:
    """Far end, microphone and enhanced signal of a double talk; ``marked`` appends the scenario to each."""
    far, near = sound.speech(2.0, rate, seed=1), sound.speech(2.0, rate, seed=2)
    echo = 0.3 * np.pad(far, (rate // 100, 0))[: len(far)]
    signals = (far, near + echo, near + 0.02 * echo)
    size = 512 * rate // RATE
    features = [sound.mel_decibels(np.clip(s, -1, 1), rate, size + 1, size // 2, 160) for s in signals]
    if marked:
        marker = np.concatenate([np.ones((20, 160)), np.zeros((20, 160))]).astype(np.float32)
        features = [np.concatenate([f, marker]) for f in features]
    return {"input": np.stack(features)[None], "h0": np.zeros((4, 1, hidden), np.float32)}


INPUTS: dict[str, Callable[[], Arrays]] = {
    "silero_vad": _silero,
    "silero_vad_16k_op15": _silero,
    "silero_vad_16k_sequence": _silero_sequence,
    "silero_vad_half": partial(_silero, rate=False),
    "silero_vad_op18_ifless": _silero,
    "silero_vad_openvino_16k": partial(_silero, batch=False, rate=False),
    "magika": _magika,
    "ppocr_det": _detection,
    "ppocr_rec": _recognition,
    "ppocr_cls": _orientation,
    "swift_f0": _gliding_tone,
    "dnsmos_sig": _dnsmos_spectrum,
    "dnsmos_bak_ovr": _dnsmos_spectrum,
    "dnsmos_p808": _dnsmos_mel,
    "dnsmos_sig_bak_ovr": _dnsmos_audio,
    "pdnsmos_sig_bak_ovr": _dnsmos_audio,
    "plcmos": _plcmos,
    "aecmos_16k_scenarioless": partial(_aecmos, rate=16000, hidden=64, marked=False),
    "aecmos_16k": partial(_aecmos, rate=16000, hidden=64, marked=True),
    "aecmos_48k": partial(_aecmos, rate=48000, hidden=96, marked=True),
}
"""By the names of ``networks.toml``. The same arrays at each call."""
