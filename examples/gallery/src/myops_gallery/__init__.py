"""myops_gallery: three ops of 3D vision, written with the public SDK of myops only.

Each op has a file here and one in csrc/ of the same name.
"""

from myops_gallery.homography_warp import homography_warp

__all__ = ["homography_warp"]
