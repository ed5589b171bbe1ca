"""The loaders that `myops.ort.bundle` puts into a folder. They stand alone there; here they are
code like any other: `load` holds the functions that the bundling side uses too."""
