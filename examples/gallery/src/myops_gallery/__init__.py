"""myops_gallery: three ops of 3D vision, written with the public SDK of myops only.

Each op has a file here and one in csrc/ of the same name.
"""

from myops_gallery.homography_warp import homography_warp
from myops_gallery.splat_points import splat_points
from myops_gallery.volume_render import volume_render

__all__ = ["homography_warp", "splat_points", "volume_render"]
