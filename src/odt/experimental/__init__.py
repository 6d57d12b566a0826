"""Interfaces that other projects defined and odt serves."""
