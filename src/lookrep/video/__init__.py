"""Videos of an agent at play: what it sees, and beside it what its online and target network think of each action.

`observations` turns observations into pictures, `values` turns the networks' outputs into rows to draw, `frames` puts
both on a canvas, `files` writes gif and mp4. How a recording comes about is `lookrep.playing`'s business.
"""

from lookrep.video.files import check_path, pending, write
from lookrep.video.frames import Film

__all__ = ["Film", "check_path", "pending", "write"]
