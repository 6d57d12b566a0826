"""A page in the browser that follows runs while they train, and predicts dropped samples."""
