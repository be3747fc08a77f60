"""What the networks of the zoo are fed: rendered text and pages, synthetic notes, bytes of files, photo crops.

Everything is drawn from seeds or read from installed packages, so that two machines see nearly the same and nothing
is downloaded. Calibration and scoring samples come from different seeds, photos or files.
"""

from __future__ import annotations

import itertools
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from benchmarks import photos

Samples = list[dict[str, np.ndarray]]
VOCABULARY = (
    "total invoice number street Hamburg station sensor 2024 camera No. 17 lidar price EUR 3,99 exit only open door "
    "speed limit 50 km/h caution please contact service@ptq.example engine serial 0815-4711 model ABC weight 12 kg "
    "temperature -4.5 C quick brown fox jumps over lazy dog THE NEW YORK Gate B12 Departure 09:45 Berlin Main Road"
)
WORDS = VOCABULARY.split()


def _scaled(pixels: np.ndarray, mean: object, deviation: object) -> np.ndarray:
    values = (pixels.astype(np.float32) / 255 - np.asarray(mean, np.float32)) / np.asarray(deviation, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None], np.float32)


def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def _colours(random: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Paper and ink, far enough apart to be read; one in four is light on dark."""
    paper, ink = random.integers(170, 256, 3), random.integers(0, 90, 3)
    pair = (tuple(int(c) for c in paper), tuple(int(c) for c in ink))
    return pair[::-1] if random.random() < 0.25 else pair


def _width(font: ImageFont.ImageFont | ImageFont.FreeTypeFont, words: list[str]) -> int:
    return int(font.getlength(" ".join(words))) + 16


def text_lines(count: int, seed: int) -> Samples:
    """Lines of one to four words, 48 pixels high and padded to 320: `x` [1, 3, 48, 320], -1 .. 1.

    Words that do not fit are left out. PP-OCR keeps the shape of letters, so that a longer line is a wider input;
    squeezed ones are narrower than what a step of its output sees, and a float model reads them by luck."""
    return [sample for _, sample in itertools.islice(written_lines(seed), count)]


def written_lines(seed: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Text and image of one line after the other, without end."""
    for index in itertools.count():
        random = np.random.default_rng((seed, index))
        words = list(random.choice(WORDS, random.integers(1, 5)))
        paper, ink = _colours(random)
        font = _font(int(random.integers(24, 38)))
        while _width(font, words) > 320:
            words.pop()
        image = Image.new("RGB", (_width(font, words), 48), paper)
        ImageDraw.Draw(image).text((8, 24), " ".join(words), ink, font, anchor="lm")
        pixels = np.asarray(image).astype(np.float32) + random.normal(0, 6, (48, image.width, 3))
        sample = np.zeros((1, 3, 48, 320), np.float32)
        sample[..., : image.width] = _scaled(np.clip(pixels, 0, 255), 0.5, 0.5)
        yield " ".join(words), {"x": sample}


def _page(random: np.random.Generator, size: int) -> Image.Image:
    """A page of paragraphs and headings, `size` pixels square."""
    paper, ink = _colours(random)
    image = Image.new("RGB", (size, size), paper)
    draw, y = ImageDraw.Draw(image), int(random.integers(4, 20))
    while y < size - 16:
        height = int(random.integers(9, 15)) if random.random() < 0.85 else int(random.integers(18, 26))
        left, right = int(random.integers(4, 24)), int(random.integers(size * 2 // 3, size - 4))
        line = ""
        for word in random.choice(WORDS, 40):
            if _font(height).getlength(f"{line} {word}") > right - left:
                break
            line = f"{line} {word}".strip()
        draw.text((left, y), line, ink, _font(height))
        y += int(height * random.uniform(1.2, 2.2))
    return image


def pages(count: int, seed: int) -> Samples:
    """Rendered pages in four rotations each: `x` [1, 3, 224, 224], ImageNet mean and deviation."""
    samples: Samples = []
    for index in range(count):
        image = _page(np.random.default_rng((seed, index // 4)), 224)
        turned = np.ascontiguousarray(np.rot90(np.asarray(image), index % 4))
        samples.append({"x": photos.to_input(turned, "imagenet")})
    return samples


def scenes(count: int, seed: int) -> Samples:
    """Pages with text of any size for a text detector: `x` [1, 3, 320, 320], -1 .. 1."""
    made = (_page(np.random.default_rng((seed, index)), 320) for index in range(count))
    return [{"x": _scaled(np.asarray(image), 0.5, 0.5)} for image in made]


def notes(count: int, seed: int) -> Samples:
    """Two seconds of plucked and held notes, [1, 43844, 1] at 22,050 Hz."""
    rate, length = 22050, 43844
    samples: Samples = []
    for index in range(count):
        random = np.random.default_rng((seed, index))
        sound = random.normal(0, 0.001, length)
        for _ in range(int(random.integers(2, 9))):
            start, pitch = int(random.integers(0, length - rate // 2)), int(random.integers(40, 84))
            t = np.arange(min(length - start, int(rate * random.uniform(0.2, 1.5)))) / rate
            base = 440.0 * 2 ** ((pitch - 69) / 12)
            decay, fall = random.uniform(0.5, 6), random.uniform(0.8, 2)
            tone = sum(k**-fall * np.sin(2 * np.pi * base * k * t) for k in range(1, 9) if base * k < rate / 2)
            edge = np.minimum(1, np.minimum(t, t[::-1]) / 0.01)
            sound[start : start + t.size] += random.uniform(0.1, 0.4) * tone * np.exp(-decay * t) * edge
        sound /= max(1.0, np.abs(sound).max())
        samples.append({"serving_default_input_2:0": sound.astype(np.float32)[None, :, None]})
    return samples


@cache
def _files() -> list[Path]:
    """Files of many kinds from the interpreter's library and the installed packages, at most six of a suffix."""
    kinds: dict[str, list[Path]] = {}
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(sys.executable).parent)):
        for path in sorted(Path(folder).rglob("*")):
            found = kinds.setdefault(path.suffix, [])
            if len(found) < 6 and path.is_file() and path.stat().st_size > 256:
                found.append(path)
    order = np.random.default_rng(0).permutation(sum(len(found) for found in kinds.values()))
    flat = [path for _, found in sorted(kinds.items()) for path in found]
    return [flat[i] for i in order]


def file_bytes(count: int, seed: int) -> Samples:
    """First and last 1,024 bytes of files without the blanks around, 256 where there are none: `bytes` [1, 2048]."""
    samples: Samples = []
    for path in _files()[seed * 100 : seed * 100 + count]:
        content = path.read_bytes()
        begin = np.frombuffer(content[:4096].lstrip()[:1024], np.uint8)
        end = np.frombuffer(content[-4096:].rstrip()[-1024:], np.uint8)
        tokens = np.full((1, 2048), 256, np.int32)
        tokens[0, : begin.size] = begin
        tokens[0, 2048 - end.size :] = end
        samples.append({"bytes": tokens})
    return samples


def portraits(count: int, seed: int, name: str, size: int) -> Samples:
    """Gray 25 x 25 pictures of scikit-image's `lfw_subset`, half of them faces: [1, size, size, 3], about -1 .. 1.

    Every fifth picture of the 200 calibrates, the others score; faces and others take turns.
    """
    spec = find_spec("skimage")
    if spec is None or spec.origin is None:
        raise ImportError('skimage is missing: pip install "ptqlab[models]"')
    pictures = np.load(Path(spec.origin).parent / "data" / "lfw_subset.npy", allow_pickle=False)
    order = np.arange(200).reshape(2, 100).T.ravel()
    held = order.reshape(-1, 10)
    listed = held[:, :2].ravel() if seed == 1 else held[:, 2:].ravel()
    samples: Samples = []
    for index in listed[:count]:
        image = Image.fromarray((pictures[index] * 255).astype(np.uint8))
        pixels = image.resize((size, size), Image.Resampling.BILINEAR)
        values = (np.asarray(pixels, np.float32).T - 127.5) / 128
        samples.append({name: np.ascontiguousarray(np.repeat(values[None, :, :, None], 3, 3))})
    return samples


def sound_frames(count: int, seed: int) -> Samples:
    """64 ms of a plucked string with noise, mean 0 and deviation 1: `frames` [1, 1024] at 16 kHz."""
    samples: Samples = []
    for index in range(count):
        random = np.random.default_rng((seed, index))
        base, t = 440.0 * 2 ** ((random.uniform(36, 86) - 69) / 12), np.arange(1024) / 16000
        fall = random.uniform(0.6, 2)
        tone = sum(k**-fall * np.sin(2 * np.pi * (base * k * t + random.random())) for k in range(1, 11)
                   if base * k < 8000)
        sound = tone * np.exp(-random.uniform(0, 20) * t) + random.normal(0, 10 ** random.uniform(-3, -1), 1024)
        samples.append({"frames": ((sound - sound.mean()) / sound.std()).astype(np.float32)[None]})
    return samples


def crops(count: int, seed: int, size: int = 224) -> Samples:
    """Photo crops for image networks: `input` [1, 3, size, size], ImageNet mean and deviation."""
    made = photos.photo_crops("calibration" if seed == 1 else "scoring", count)
    step = photos.SIZE // size
    kept = slice(0, size * step, step)
    return [{"input": np.ascontiguousarray(crop.image[..., kept, kept])} for crop in made]
