# Written by `myops stubs myops_gallery`. What is here at run time is in __init__.py.
from myops_gallery.homography_warp import homography_warp as homography_warp
from myops_gallery.splat_points import splat_points as splat_points
from myops_gallery.volume_render import volume_render as volume_render

__all__ = [
    "homography_warp",
    "splat_points",
    "volume_render",
]
