"""Personalization of classifiers on new samples."""
