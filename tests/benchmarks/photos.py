"""Photo crops for calibrating and scoring the ImageNet networks, with no download.

The files lie in scikit-image's and scikit-learn's wheels. Eight photos calibrate and ten others score. Ten
of the 18 are in colour: four for calibration (flower, motorcycle, tissue, galaxies) and six for scoring.
The rest are gray and are repeated to three channels. Left out are `cell` and `clock_motion` (one blurred
blob each), `motorcycle_right` (the left one again), thumbnails and drawings.

Five of the scoring photos, `OBJECT_PHOTOS`, show one thing or scene as ImageNet's own pictures do; the others
are textures, text and science images, for which a classifier's answer means little.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

Kind = Literal["calibration", "scoring"]
Normalise = Literal["imagenet", "lite"]

CALIBRATION_PHOTOS = (
    "flower.jpg", "motorcycle_left.png", "ihc.png", "hubble_deep_field.jpg",
    "camera.png", "coins.png", "grass.png", "page.png",
)  # fmt: skip
SCORING_PHOTOS = (
    "astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "china.jpg",
    "retina.jpg", "moon.png", "brick.png", "gravel.png", "text.png",
)  # fmt: skip
OBJECT_PHOTOS = frozenset({"astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "china.jpg"})

SIZE = 224
_COUNTS: dict[Kind, int] = {"calibration": 32, "scoring": 240}
_SEEDS: dict[Kind, int] = {"calibration": 1, "scoring": 2}
_IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_IMAGENET_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


@dataclass(frozen=True)
class Crop:
    """One network input cut from a photo.

    Attributes:
        photo: file name of the photo, such as `chelsea.png`.
        image: float32 [1, 3, 224, 224], RGB, normalised.
        object_photo: whether the photo is one of `OBJECT_PHOTOS`.
    """

    photo: str
    image: np.ndarray
    object_photo: bool


def calibration_crops(n: int = 32, normalise: Normalise = "imagenet") -> list[np.ndarray]:
    """Return `n` crops from the 8 calibration photos in turn, each float32 [1, 3, 224, 224]."""
    return [crop.image for crop in photo_crops("calibration", n, normalise)]


def scoring_crops(n: int = 240, normalise: Normalise = "imagenet") -> list[np.ndarray]:
    """Return `n` crops from the 10 scoring photos in turn, each float32 [1, 3, 224, 224]."""
    return [crop.image for crop in photo_crops("scoring", n, normalise)]


def photo_crops(kind: Kind, n: int | None = None, normalise: Normalise = "imagenet") -> list[Crop]:
    """Return random resized crops: area 0.35 to 1 of the photo, aspect 3:4 to 4:3, half of them mirrored.

    Crop `i` depends on `kind` and `i` alone, so fewer crops are a prefix of more, and both normalisations
    see the same pixels.

    Args:
        kind: which photos to cut from.
        n: how many crops; 32 for calibration and 240 for scoring where not given.
        normalise: `imagenet` for (RGB / 255 - mean) / deviation, `lite` for (RGB - 127) / 128.
    """
    photos = CALIBRATION_PHOTOS if kind == "calibration" else SCORING_PHOTOS
    crops = []
    for index in range(_COUNTS[kind] if n is None else n):
        photo = photos[index % len(photos)]
        random = np.random.default_rng((_SEEDS[kind], index))
        pixels = _random_resized_crop(load_photo(photo), random)
        crops.append(Crop(photo, to_input(pixels, normalise), photo in OBJECT_PHOTOS))
    return crops


def object_mask(crops: Iterable[Crop]) -> np.ndarray:
    """Return which crops come from object photos: bool [N]."""
    return np.array([crop.object_photo for crop in crops], bool)


def centre_crop(photo: str, normalise: Normalise = "imagenet") -> np.ndarray:
    """Return the usual evaluation view of a photo, the middle 7/8 of its short side: [1, 3, 224, 224]."""
    image = load_photo(photo)
    side = min(image.size) * 0.875
    left, top = ((length - side) / 2 for length in image.size)
    box = (left, top, left + side, top + side)
    return to_input(np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box)), normalise)


def to_input(pixels: np.ndarray, normalise: Normalise) -> np.ndarray:
    """Turn RGB uint8 [H, W, 3] into a normalised network input, float32 [1, 3, H, W].

    Raises:
        ValueError: `normalise` is neither `imagenet` nor `lite`.
    """
    values = pixels.astype(np.float32)
    if normalise == "imagenet":
        values = (values / 255 - _IMAGENET_MEAN) / _IMAGENET_DEVIATION
    elif normalise == "lite":
        values = (values - 127) / 128
    else:
        raise ValueError(f"normalise must be 'imagenet' or 'lite', not {normalise!r}")
    return np.ascontiguousarray(values.transpose(2, 0, 1)[np.newaxis])


def _random_resized_crop(image: Image.Image, random: np.random.Generator) -> np.ndarray:
    """Cut, resize and perhaps mirror: RGB uint8 [224, 224, 3]."""
    width, height = image.size
    area = random.uniform(0.35, 1) * width * height
    aspect = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
    # A window too long for the photo is shortened to it, as a small part of all draws ask for.
    w, h = min(width, np.sqrt(area * aspect)), min(height, np.sqrt(area / aspect))
    left, top = random.uniform(0, width - w), random.uniform(0, height - h)
    pixels = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, (left, top, left + w, top + h)))
    return pixels[:, ::-1] if random.random() < 0.5 else pixels


@cache
def load_photo(name: str) -> Image.Image:
    """Load a photo as RGB from the wheel that holds it.

    The files are opened directly: scikit-image's own loaders may reach for the network.
    """
    for module, folder in (("skimage", "data"), ("sklearn", "datasets/images")):
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise ImportError(f'{module} is missing: pip install "ptqlab[models]"')
        path = Path(spec.origin).parent / folder / name
        if path.exists():
            with Image.open(path) as image:
                return image.convert("RGB")
    raise FileNotFoundError(f"{name} lies in neither scikit-image's nor scikit-learn's installed files")
