"""The losses of a student: those of its targets, and one for the outputs of a teacher.

(1 − α) L(t, z) + α T² KL(q, softmax(z / T)), with the targets t, the student's logits z, and the
teacher's probabilities q at the temperature T. The factor T² keeps the gradients of both parts in
proportion when T changes. KL and the cross-entropy of the source differ by the entropy of q, which
is constant. Losses other than categorical ones have no temperature: the teacher's outputs take the
place of the targets.

Source: Hinton, Vinyals and Dean, Distilling the Knowledge in a Neural Network (2015).
"""

from dataclasses import replace

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.output_loss import Loss
from odt.core.recipe.output_losses import moved_outputs, output_loss
from odt.errors import OptionError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import DISTRIBUTIONS, LABELS

CATEGORICAL = (DISTRIBUTIONS, LABELS)


def student_losses(
    graphs: LoweredGraphs, info: TrainingInfo, losses: tuple[Loss, ...]
) -> tuple[Loss, ...]:
    """The losses of a training step: with a teacher, its loss comes last.

    Raises:
        OptionError: if the model cannot learn from a teacher, or not at this temperature.
    """
    if not info.teacher_weight:
        return losses
    if len(losses) != 1:
        raise OptionError("teacher", "needs a model with one loss", f"{len(losses)} losses")
    (hard,) = losses
    graph = graphs.graph
    name = soft_loss(hard.name)
    temperature = info.temperature
    soft = output_loss(
        graph, graph.outputs[hard.output], name, info.reduction, moved_outputs(graphs)
    )
    soft = replace(soft, output=hard.output, weight=hard.weight * info.teacher_weight)
    if temperature != 1:
        if LOSSES[hard.name].targets not in CATEGORICAL or not soft.options.get("from_logits"):
            raise OptionError(
                "temperature", "must be 1 for a model without logits of classes", f"{temperature:g}"
            )
        beta = float(soft.options.get("beta", 1.0)) / temperature  # type: ignore[arg-type]
        weight = soft.weight * temperature**2
        soft = replace(soft, options={**soft.options, "beta": beta}, weight=weight)
    return replace(hard, weight=hard.weight * (1 - info.teacher_weight)), soft


def soft_loss(hard: str) -> str:
    """The loss for the teacher's outputs, by the loss for the targets."""
    return "kl_divergence" if LOSSES[hard].targets in CATEGORICAL else hard
