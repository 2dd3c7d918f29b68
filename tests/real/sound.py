"""Speech-like sound made from nothing, and the features that speech networks are fed."""

from __future__ import annotations

import numpy as np
from scipy import signal

VOWELS = {  # the first three formants in Hz; Peterson and Barney (1952), men
    "i": (270, 2290, 3010),
    "e": (530, 1840, 2480),
    "a": (730, 1090, 2440),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}
BANDWIDTHS = (60, 90, 120)


def speech(seconds: float, rate: int = 16000, seed: int = 0) -> np.ndarray:
    """Syllables of a fricative and a vowel, about four a second, with a pause after every sixth; float32, peak 0.5."""
    rng = np.random.default_rng(seed)
    pieces: list[np.ndarray] = []
    length = round(seconds * rate)
    while sum(map(len, pieces)) < length:
        for _ in range(6):
            pieces.append(_fricative(rng, round(rng.uniform(0.04, 0.09) * rate), rate))
            pieces.append(_vowel(rng, round(rng.uniform(0.12, 0.24) * rate), rate))
        pieces.append(np.zeros(round(0.3 * rate)))
    sound = np.concatenate(pieces)[:length]
    sound = sound / np.abs(sound).max() * 0.5 + rng.normal(0, 1e-4, length)
    return sound.astype(np.float32)


def _vowel(rng: np.random.Generator, length: int, rate: int) -> np.ndarray:
    begin, end = rng.uniform(110, 160, 2)
    phase = np.cumsum(np.linspace(begin, end, length)) / rate
    pulses = np.diff(np.floor(phase), prepend=0.0)
    sound = signal.lfilter([1], [1, -0.95], pulses)  # the glottis weakens high harmonics
    for frequency, bandwidth in zip(VOWELS[rng.choice(list(VOWELS))], BANDWIDTHS, strict=True):
        radius, angle = np.exp(-np.pi * bandwidth / rate), 2 * np.pi * frequency / rate
        denominator = [1, -2 * radius * np.cos(angle), radius**2]
        sound = signal.lfilter([sum(denominator)], denominator, sound)
    return sound / np.abs(sound).max() * signal.windows.tukey(length, 0.4)


def _fricative(rng: np.random.Generator, length: int, rate: int) -> np.ndarray:
    sections = signal.butter(4, 3500, "highpass", fs=rate, output="sos")
    return 0.1 * signal.sosfilt(sections, rng.normal(size=length)) * np.hanning(length)


def power_spectrum(sound: np.ndarray, n_fft: int, hop: int) -> np.ndarray:
    """The power of the short-time Fourier transform, shaped (frames, n_fft // 2 + 1): Hann window, centred frames."""
    padded = np.pad(sound.astype(np.float64), n_fft // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, n_fft)[::hop]
    return np.abs(np.fft.rfft(frames * signal.windows.hann(n_fft, sym=False))) ** 2


def mel_decibels(sound: np.ndarray, rate: int, n_fft: int, hop: int, n_mels: int) -> np.ndarray:
    """The mel spectrogram in decibels below its maximum, at most 80, mapped from [-80, 0] to [-1, 1]."""
    power = np.maximum(power_spectrum(sound, n_fft, hop) @ mel_filters(rate, n_fft, n_mels).T, 1e-10)
    decibels = np.maximum(10 * np.log10(power / power.max()), -80)
    return ((decibels + 40) / 40).astype(np.float32)


def mel_filters(rate: int, n_fft: int, n_mels: int) -> np.ndarray:
    """Triangles of equal area whose corners are even in mel (Slaney's Auditory Toolbox), shaped (n_mels, n_fft // 2 + 1)."""
    frequencies = np.fft.rfftfreq(n_fft, 1 / rate)
    corners = _from_mel(np.linspace(0, _to_mel(rate / 2), n_mels + 2))
    below, centre, above = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (frequencies - below) / (centre - below), (above - frequencies) / (above - centre)
    return np.maximum(0, np.minimum(rising, falling)) * 2 / (above - below)


def _to_mel(hertz: float) -> float:
    return hertz * 3 / 200 if hertz < 1000 else 15 + np.log(hertz / 1000) * 27 / np.log(6.4)


def _from_mel(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))


def log_power_dns(sound: np.ndarray, size: int = 512) -> np.ndarray:
    """The features of PLCMOS: the logarithm of the squared magnitude of a half-overlapping Hamming spectrum, over 20."""
    hop = size // 2
    frames = -(-(len(sound) + hop) // hop)
    padded = np.pad(sound.astype(np.float64), (hop, (frames - 1) * hop + size - hop - len(sound)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    magnitude = np.abs(np.fft.rfft(windows * np.hamming(size + 1)[:-1]))
    return (np.log(np.maximum(magnitude**2, 1e-12)) / 20).astype(np.float32)
