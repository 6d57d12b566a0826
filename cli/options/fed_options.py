"""The options of `odt fed simulate` and `odt fed init` as values, by what they are for."""

from collections.abc import Mapping
from typing import Any, Self

from odt.cli.options.exports import ExportOptions
from odt.cli.options.rows import group
from odt.cli.options.sample_files import SampleFiles
from odt.core.options.federation_options import FederationOptions
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FederationFiles:
    """Model and data of a federation, and files of its state."""

    model: str | None = None
    data: str | None = None
    adapters: str | None = None
    log: str | None = None
    plot: str | None = None
    checkpoint: str | None = None
    export_checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class FedOptions:
    """All options of `odt fed simulate`; `odt fed init` has some of them.

    Attributes:
        recipe: values by name, of which `odt.Trainer` takes those of its recipe.
    """

    federation: FederationOptions
    samples: SampleFiles
    files: FederationFiles
    exports: ExportOptions
    recipe: Mapping[str, Any]

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Returns the options of a command.

        Args:
            values: what Click passes to the command.
        """
        return cls(
            federation=group(FederationOptions, values),
            samples=group(SampleFiles, values),
            files=group(FederationFiles, values),
            exports=group(ExportOptions, values),
            recipe=values,
        )
