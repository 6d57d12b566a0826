"""Fine-tunes deployed Circle and TFLite models on the device that runs them."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # the tables below, for type checkers
    from odt import augment as augment
    from odt import federated as federated
    from odt.artifacts import Artifacts as Artifacts
    from odt.artifacts import generate_artifacts as generate_artifacts
    from odt.callbacks import Callback as Callback
    from odt.callbacks import CSVLogger as CSVLogger
    from odt.callbacks import EarlyStopping as EarlyStopping
    from odt.callbacks import History as History
    from odt.callbacks import LambdaCallback as LambdaCallback
    from odt.callbacks import Logs as Logs
    from odt.callbacks import ModelCheckpoint as ModelCheckpoint
    from odt.callbacks import ReduceLROnPlateau as ReduceLROnPlateau
    from odt.checkpoint_state import CheckpointState as CheckpointState
    from odt.classification import ClassificationReport as ClassificationReport
    from odt.classification import classification_report as classification_report
    from odt.classification import sample_losses as sample_losses
    from odt.core.model.training_info import TrainingInfo as TrainingInfo
    from odt.creation import new_model as new_model
    from odt.cutting import cut as cut
    from odt.cutting import join as join
    from odt.data import DataSet as DataSet
    from odt.errors import DataError as DataError
    from odt.errors import LostFileError as LostFileError
    from odt.errors import ModelError as ModelError
    from odt.errors import OdtError as OdtError
    from odt.errors import OdtWarning as OdtWarning
    from odt.errors import OptionError as OptionError
    from odt.errors import ShapeError as ShapeError
    from odt.errors import TrainingError as TrainingError
    from odt.errors import UnsupportedError as UnsupportedError
    from odt.kernels.scheduledef import Schedule as Schedule
    from odt.kernels.schedules import ConstantRate as ConstantRate
    from odt.kernels.schedules import CosineDecay as CosineDecay
    from odt.kernels.schedules import CosineDecayRestarts as CosineDecayRestarts
    from odt.kernels.schedules import ExponentialDecay as ExponentialDecay
    from odt.kernels.schedules import OneCycle as OneCycle
    from odt.kernels.schedules import PolynomialDecay as PolynomialDecay
    from odt.kernels.schedules import ReduceOnPlateau as ReduceOnPlateau
    from odt.kernels.schedules import StepDecay as StepDecay
    from odt.losses import *  # noqa: F403 - a class for each row of kernels/losses
    from odt.model import Model as Model
    from odt.model import NodeInfo as NodeInfo
    from odt.model import TensorInfo as TensorInfo
    from odt.model import load_model as load_model
    from odt.model import read_training_info as read_training_info
    from odt.model import write_circle_plus as write_circle_plus
    from odt.optimizers import *  # noqa: F403 - a class for each row of kernels/optimizers
    from odt.personalization import Personalization as Personalization
    from odt.personalization import personalize as personalize
    from odt.planning import CheckResult as CheckResult
    from odt.planning import MemoryForecast as MemoryForecast
    from odt.planning import check as check
    from odt.planning import plan as plan
    from odt.quantization import QuantizedModel as QuantizedModel
    from odt.quantization import quantize as quantize
    from odt.rate_test import RateTest as RateTest
    from odt.teacher import Teacher as Teacher
    from odt.trainable import Trainable as Trainable
    from odt.trainable import bias_only as bias_only
    from odt.trainable import freeze as freeze
    from odt.trainable import last as last
    from odt.trainable import select as select
    from odt.trainer import Trainer as Trainer
    from odt.transfer import lora as lora
    from odt.transfer import replace_head as replace_head
    from odt.weights import Arrays as Arrays

# Public name → its module, loaded when the name is first used: `import odt` stays instant.
PUBLIC = {
    "DataError": "odt.errors",
    "ModelError": "odt.errors",
    "OdtError": "odt.errors",
    "OptionError": "odt.errors",
    "ShapeError": "odt.errors",
    "TrainingError": "odt.errors",
    "UnsupportedError": "odt.errors",
    "LostFileError": "odt.errors",
    "Model": "odt.model",
    "TensorInfo": "odt.model",
    "NodeInfo": "odt.model",
    "load_model": "odt.model",
    "read_training_info": "odt.model",
    "new_model": "odt.creation",
    "replace_head": "odt.transfer",
    "lora": "odt.transfer",
    "quantize": "odt.quantization",
    "QuantizedModel": "odt.quantization",
    "cut": "odt.cutting",
    "join": "odt.cutting",
    "write_circle_plus": "odt.model",
    "TrainingInfo": "odt.core.model.training_info",
    "Trainer": "odt.trainer",
    "CheckpointState": "odt.checkpoint_state",
    "generate_artifacts": "odt.artifacts",
    "Artifacts": "odt.artifacts",
    "classification_report": "odt.classification",
    "ClassificationReport": "odt.classification",
    "sample_losses": "odt.classification",
    "OdtWarning": "odt.errors",
    "Schedule": "odt.kernels.scheduledef",
    "ConstantRate": "odt.kernels.schedules",
    "StepDecay": "odt.kernels.schedules",
    "ExponentialDecay": "odt.kernels.schedules",
    "PolynomialDecay": "odt.kernels.schedules",
    "CosineDecay": "odt.kernels.schedules",
    "CosineDecayRestarts": "odt.kernels.schedules",
    "OneCycle": "odt.kernels.schedules",
    "ReduceOnPlateau": "odt.kernels.schedules",
    "Trainable": "odt.trainable",
    "last": "odt.trainable",
    "select": "odt.trainable",
    "freeze": "odt.trainable",
    "bias_only": "odt.trainable",
    "Callback": "odt.callbacks",
    "History": "odt.callbacks",
    "Logs": "odt.callbacks",
    "EarlyStopping": "odt.callbacks",
    "ModelCheckpoint": "odt.callbacks",
    "ReduceLROnPlateau": "odt.callbacks",
    "CSVLogger": "odt.callbacks",
    "LambdaCallback": "odt.callbacks",
    "RateTest": "odt.rate_test",
    "Teacher": "odt.teacher",
    "personalize": "odt.personalization",
    "Personalization": "odt.personalization",
    "DataSet": "odt.data",
    "Arrays": "odt.weights",
    "plan": "odt.planning",
    "MemoryForecast": "odt.planning",
    "check": "odt.planning",
    "CheckResult": "odt.planning",
}

MODULES = ("augment", "federated")  # public names that are modules

# All public names of these modules are odt's too: a class for each row of these folders of kernels.
ROWS = ("odt.optimizers", "odt.losses")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in MODULES:
            return importlib.import_module(f"odt.{name}")
        for path in (PUBLIC[name],) if name in PUBLIC else ROWS:
            module = importlib.import_module(path)
            if name in PUBLIC or name in module.__all__:
                value = getattr(module, name)
                globals()[name] = value
                return value
        raise AttributeError(f"module 'odt' has no attribute {name!r}")

    def __dir__() -> list[str]:
        rows = (name for path in ROWS for name in importlib.import_module(path).__all__)
        return sorted({*globals(), *PUBLIC, *MODULES, *rows})
