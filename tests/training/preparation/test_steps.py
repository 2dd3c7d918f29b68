"""What each step computes, against formulas written out and against Pillow."""

from __future__ import annotations

import io
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deep_bench.errors import InvalidData
from deep_bench.training.preparation import Preparation

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def after(values: np.ndarray, *steps: dict[str, Any], field: str = "image", epoch: int = 0) -> np.ndarray:
    return Preparation(list(steps))({field: values}, np.arange(len(values)), epoch)[field]


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)


def encoded(image: np.ndarray, kind: str = "png") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind)
    return file.getvalue()


def objects(*items: object) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def test_decode_gives_the_pixels() -> None:
    first, second, grey = pixels(4, 5, 3), pixels(4, 5, 3), pixels(6, 7)
    assert np.array_equal(after(objects(encoded(first), encoded(second)), {"step": "decode"}), [first, second])
    mixed = after(objects(encoded(first), encoded(grey)), {"step": "decode", "mode": "L"})
    assert mixed.dtype == object
    assert np.array_equal(mixed[1][:, :, 0], grey)
    assert np.array_equal(mixed[0][:, :, 0], np.asarray(Image.fromarray(first).convert("L")))
    raw = objects(np.frombuffer(encoded(first), np.uint8), encoded(grey))
    assert np.array_equal(after(raw, {"step": "decode"})[0], first)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"no image" + b, lambda b: b[20:]])
@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_a_damaged_image_is_named(damage: Any, kind: str) -> None:
    whole = encoded(pixels(32, 32, 3), kind)
    with pytest.raises(InvalidData, match=r"sample 1, 'image': step 1 \(decode\) got an image that cannot be decoded"):
        after(objects(whole, damage(whole)), {"step": "decode"})


@pytest.mark.parametrize("method", ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"])
@pytest.mark.parametrize("layout", ["HWC", "CHW", "HW"])
def test_resize_is_pillows(method: str, layout: str) -> None:
    image = pixels(20, 31, 3)
    expected = np.asarray(Image.fromarray(image).resize((8, 12), Image.Resampling[method.upper()]))
    given = {"HWC": image, "CHW": image.transpose(2, 0, 1), "HW": image[:, :, 1]}[layout]
    wanted = {"HWC": expected, "CHW": expected.transpose(2, 0, 1), "HW": expected[:, :, 1]}[layout]
    step = {"step": "resize", "size": [12, 8], "method": method, "layout": layout}
    assert np.array_equal(after(given[None], step)[0], wanted)


def test_resize_keeps_proportions_and_the_type() -> None:
    sizes = objects(pixels(20, 31, 3), pixels(50, 10, 3))
    shapes = [image.shape for image in after(sizes, {"step": "resize", "size": 10, "layout": "HWC"})]
    assert shapes == [(10, 15, 3), (50, 10, 3)]
    ramp = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8)
    small = after(ramp, {"step": "resize", "size": [4, 4], "method": "box", "layout": "HW"})
    assert small.dtype == np.float32
    assert np.allclose(small[0], ramp[0].reshape(4, 2, 4, 2).mean((1, 3)))


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_crops_are_the_part_asked_for(layout: str) -> None:
    images = pixels(2, 9, 10, 3)
    given, back = (images, (0, 1, 2, 3)) if layout == "HWC" else (images.transpose(0, 3, 1, 2), (0, 2, 3, 1))
    centre = after(given, {"step": "crop", "size": [4, 5], "layout": layout}).transpose(back)
    corner = after(given, {"step": "crop", "size": [4, 5], "at": [5, 5], "layout": layout}).transpose(back)
    assert np.array_equal(centre, images[:, 2:6, 2:7])
    assert np.array_equal(corner, images[:, 5:, 5:])


def test_layout_and_colour_move_what_they_name() -> None:
    images = pixels(2, 4, 5, 3)
    chw = after(images, {"step": "layout", "source": "HWC", "into": "CHW"})
    assert np.array_equal(chw, images.transpose(0, 3, 1, 2))
    assert chw.flags.c_contiguous
    bgr = after(chw, {"step": "colour", "source": "RGB", "into": "BGR", "layout": "CHW"})
    assert np.array_equal(bgr, chw[:, ::-1])
    grey = after(images, {"step": "colour", "source": "RGB", "into": "L", "layout": "HWC"})
    assert np.array_equal(grey[0, :, :, 0], np.asarray(Image.fromarray(images[0]).convert("L")))
    assert np.array_equal(after(bgr, {"step": "colour", "source": "BGR", "into": "L", "layout": "CHW"})[:, 0], grey[..., 0])
    real = after(images / 255.0, {"step": "colour", "source": "RGB", "into": "L", "layout": "HWC"})
    assert np.allclose(real * 255, grey, atol=0.51)
    assert after(grey, {"step": "colour", "source": "L", "into": "RGB", "layout": "HWC"}).shape == (2, 4, 5, 3)


def test_scale_rounds_each_operation_in_its_type() -> None:
    images = pixels(2, 3, 4)
    scaled = after(images, {"step": "scale", "divisor": 255, "factor": 3, "offset": -1})
    assert scaled.dtype == np.float32
    assert np.array_equal(scaled, images.astype(np.float32) / np.float32(255) * np.float32(3) - np.float32(1))
    half = after(images, {"step": "scale", "divisor": 2, "dtype": "float16"})
    assert half.dtype == np.float16


def test_normalise_takes_each_channel_apart() -> None:
    images = np.random.default_rng(0).random((2, 4, 5, 3), np.float32)
    mean, std = [0.1, 0.2, 0.3], [0.5, 1.0, 2.0]
    got = after(images, {"step": "normalise", "mean": mean, "std": std, "layout": "HWC"})
    assert np.array_equal(got, (images - np.float32(mean)) / np.float32(std))
    chw = after(images.transpose(0, 3, 1, 2), {"step": "normalise", "mean": mean, "std": std, "layout": "CHW"})
    assert np.array_equal(chw, got.transpose(0, 3, 1, 2))
    plane = after(images[..., 0], {"step": "normalise", "mean": [0.1], "std": [0.5], "layout": "HW"})
    assert np.array_equal(plane, got[..., 0])


def test_cast_knows_narrow_types() -> None:
    assert after(np.ones((2, 2)), {"step": "cast", "dtype": "bfloat16"}).dtype == ml_dtypes.bfloat16


def test_flips_mirror_as_many_as_they_should() -> None:
    images = pixels(4000, 2, 3)
    flipped = after(images, {"step": "flip", "probability": 0.25, "layout": "HW"})
    turned = (flipped == images[:, :, ::-1]).all((1, 2))
    assert ((flipped == images).all((1, 2)) | turned).all()
    assert abs(turned.sum() - 1000) < 6 * np.sqrt(4000 * 0.25 * 0.75)
    upside_down = after(images, {"step": "flip", "direction": "vertical", "probability": 1.0, "layout": "HW"})
    assert np.array_equal(upside_down, images[:, ::-1])
    assert np.array_equal(after(images, {"step": "flip", "probability": 0.0, "layout": "HW"}), images)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_random_crops_are_parts_of_the_padded_image_at_every_place(mode: str) -> None:
    image = np.arange(1, 31, dtype=np.uint8).reshape(5, 6)
    extra = {"constant_values": 200} if mode == "constant" else {}
    padded = np.pad(image, 1, mode, **extra)  # type: ignore[call-overload]
    step = {"step": "random_crop", "size": [5, 6], "padding": 1, "mode": mode, "fill": 200, "layout": "HW"}
    parts = {part.tobytes() for part in after(np.tile(image, (400, 1, 1)), step)}
    assert parts == {padded[r : r + 5, c : c + 6].tobytes() for r in range(3) for c in range(3)}


def test_noise_and_brightness_are_as_large_as_they_say() -> None:
    images = np.full((500, 10, 10), 0.5, np.float32)
    noise = after(images, {"step": "noise", "std": 0.1}) - images
    assert noise.dtype == np.float32
    assert abs(noise.mean()) < 0.1 * 5 / np.sqrt(noise.size)
    assert abs(noise.std() / 0.1 - 1) < 5 / np.sqrt(2 * noise.size)
    factors = after(images, {"step": "brightness", "most": 0.2}) / images
    assert np.ptp(factors, axis=(1, 2)).max() == 0
    assert 0.8 <= factors.min() < 0.82
    assert 1.18 < factors.max() <= 1.2


def test_labels_become_what_is_asked_for() -> None:
    labels = np.array([1, 10, 3], np.uint8)
    assert after(labels, {"step": "offset", "add": -1}, field="label").tolist() == [0, 9, 2]
    hot = after(labels - 1, {"step": "one_hot", "classes": 10, "dtype": "uint8"}, field="label")
    assert hot.dtype == np.uint8
    assert np.array_equal(hot, np.eye(10)[[0, 9, 2]])
    assert after(hot, {"step": "argmax"}, field="label").tolist() == [0, 9, 2]
    scores = np.array([[0.1, 0.7, 0.7, 0.2], [5, 4, 5, 5]])
    assert after(scores, {"step": "top_k", "k": 3}, field="label").tolist() == [[1, 2, 3], [0, 2, 3]]
    assert after(scores, {"step": "argmax"}, field="label").tolist() == [1, 0]


@pytest.mark.parametrize(("into", "axis"), [("CHW", 1), ("HWC", 3)])
def test_grey_images_get_a_channel(into: str, axis: int) -> None:
    images = pixels(2, 4, 5)
    assert np.array_equal(after(images, {"step": "layout", "source": "HW", "into": into}), np.expand_dims(images, axis))
