"""splat_points, slow and obvious: pixel by pixel and point by point, in float64."""

import numpy as np


def splat_points(points, features, size, radius=1.5, k=8):
    points, features = np.asarray(points, np.float64), np.asarray(features, np.float64)
    height, width = (int(length) for length in size)
    radius = np.float64(np.float32(radius))
    image = np.zeros((points.shape[0], features.shape[2], height, width))
    for n in range(points.shape[0]):
        finite = np.isfinite(points[n]).all(1)
        order = [i for i in np.argsort(points[n, :, 2], kind="stable") if finite[i]]
        order = [i for i in order if points[n, i, 2] > 0]
        for y in range(height):
            for x in range(width):
                through, shown = 1.0, 0
                for i in order:
                    square = ((points[n, i, 0] - x) ** 2 + (points[n, i, 1] - y) ** 2) / radius**2
                    if square >= 1 or shown == k:
                        continue
                    image[n, :, y, x] += through * (1 - square) * features[n, i]
                    through *= square
                    shown += 1
    return image
