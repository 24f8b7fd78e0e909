"""Pictures to a .gif or .mp4 file, which appears whole or not at all. What is on the pictures is no concern here."""

import contextlib
import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from lookrep.errors import UserError
from lookrep.files import writing

FORMATS = (".gif", ".mp4")
PALETTE_FRAMES = 12  # looked at to choose a gif's 255 colours


class Pictures(Protocol):
    """Pictures of one size, any of them at any time."""

    def __len__(self) -> int: ...

    def frame(self, t: int) -> Image.Image: ...


def check_path(path: Path) -> None:
    """Refuse what cannot be written, before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"video '{path}': the name should end in {' or '.join(FORMATS)}")
    if path.is_dir():
        raise UserError(f"video '{path}': is a folder")
    if path.suffix.lower() == ".mp4" and ffmpeg() is None:
        raise UserError(
            f"video '{path}': mp4 needs ffmpeg (apt install ffmpeg, or pip install imageio-ffmpeg); .gif works without"
        )


@contextlib.contextmanager
def pending(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes that name at the end, or vanishes if something goes wrong."""
    temporary = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    with writing(f"video '{path}'"):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write(path: Path, pictures: Pictures, fps: int) -> None:
    """Write all pictures in the format of the suffix."""
    (_write_gif if path.suffix.lower() == ".gif" else _write_mp4)(path, pictures, fps)


def ffmpeg() -> str | None:
    """The program, on the PATH or in the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found is None:
        with contextlib.suppress(ImportError, RuntimeError):
            found = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    return found


def _write_gif(path: Path, pictures: Pictures, fps: int) -> None:
    # One palette for all frames, without dithering: still parts stay still, and unchanged pixels (optimize) are free.
    palette = _palette([pictures.frame(t) for t in _spread(len(pictures))])
    first, *others = (_indexed(pictures.frame(t), palette) for t in range(len(pictures)))
    first.save(
        path,
        "GIF",
        save_all=True,
        append_images=others,
        palette=bytes(palette.getpalette() or b""),
        duration=round(100 / fps) * 10,  # a gif counts in hundredths of a second
        loop=0,
        disposal=1,
        optimize=True,
    )


def _spread(count: int) -> Sequence[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, PALETTE_FRAMES)).round().astype(int).tolist()))


def _palette(samples: list[Image.Image]) -> Image.Image:
    sheet = Image.fromarray(np.concatenate([np.asarray(sample) for sample in samples]))
    return sheet.quantize(255, Image.Quantize.MEDIANCUT, kmeans=1)


def _indexed(picture: Image.Image, palette: Image.Image) -> Image.Image:
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def _write_mp4(path: Path, pictures: Pictures, fps: int) -> None:
    program = ffmpeg()
    if program is None:
        raise UserError(f"video '{path}': ffmpeg has gone")
    width, height = pictures.frame(0).size
    command = [program, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    command += ["-r", str(fps), "-i", "-", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4", str(path)]
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=complaints)
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # its exit status and its words say why
                for t in range(len(pictures)):
                    process.stdin.write(pictures.frame(t).tobytes())
        except BaseException:
            process.kill()
            raise
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            status = process.wait()
        if status:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip().splitlines() or [f"exit status {status}"]
            raise UserError(f"ffmpeg could not write the video: {said[-1]}")
