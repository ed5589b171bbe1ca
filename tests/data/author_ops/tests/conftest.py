import gc


def pytest_collection_finish():
    """Garbage collections need not look at what imports left, as it lives until the process ends."""
    gc.collect()
    gc.freeze()
