"""What benchmarks/batch.py measures, a file for each subject."""
