"""Boxes of objects in images: annotation files of several programs, one module for each format."""
