"""Folders of training runs: read, compared, and shown as a page."""
