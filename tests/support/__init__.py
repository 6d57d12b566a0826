"""What several tests use; it holds no tests."""
