"""volume_render, slow and obvious: ray by ray and sample by sample, in float64."""

import numpy as np


def volume_render(densities, colors, lengths, background=0.0):
    inputs = densities, colors, lengths
    densities, colors, lengths = (np.asarray(item, np.float64) for item in inputs)
    pixels, weights = np.zeros((colors.shape[0], colors.shape[2])), np.zeros(densities.shape)
    for ray in range(len(densities)):
        through = 1.0
        for i in range(densities.shape[1]):
            alpha = 1 - np.exp(-densities[ray, i] * lengths[ray, i])
            weights[ray, i] = through * alpha
            through *= 1 - alpha
            pixels[ray] += weights[ray, i] * colors[ray, i]
        pixels[ray] += through * np.float64(np.float32(background))
    return pixels, weights
