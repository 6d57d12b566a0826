"""Optimizer: updates the parameters of a module."""

from odt.compat.ort.checkpoint_state import Path
from odt.compat.ort.module import Module


class Optimizer:
    """Updates the parameters of a module with its gradients.

    Attributes:
        module: the module.
    """

    def __init__(self, optimizer_uri: Path, module: Module) -> None:
        """Checks the optimizer, whose state the module has.

        Args:
            optimizer_uri: path of optimizer_model.onnx, or .json.
            module: the module.

        Raises:
            ModelError: if the file cannot be read or does not belong to the module.
            OptionError: if the artifacts have no optimizer.
        """
        module.model.use_optimizer(optimizer_uri)
        self.module = module

    def step(self) -> None:
        """Updates the parameters; the gradients stay until `Module.lazy_reset_grad`.

        Raises:
            TrainingError: if there was no training step since the last update.
        """
        self.module.apply_gradients()

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the next updates.

        Args:
            learning_rate: a number of at least 0.

        Raises:
            OptionError: if it is another value.
        """
        self.module.model.learning_rate = learning_rate

    def get_learning_rate(self) -> float:
        """Returns the learning rate of the next update."""
        return self.module.model.learning_rate
