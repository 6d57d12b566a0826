"""Integer models from float models and samples. Independent of losses and gradients."""
