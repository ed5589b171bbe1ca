import gc


def pytest_collection_finish():
    """Garbage collections skip what imports left, which lives until the process ends."""
    gc.collect()
    gc.freeze()
