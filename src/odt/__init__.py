"""Fine-tunes deployed Circle and TFLite models on the device that runs them."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # the tables below, for type checkers
    from odt import augment as augment
    from odt import federated as federated
    from odt.artifacts.artifacts import Artifacts as Artifacts
    from odt.artifacts.artifacts import generate_artifacts as generate_artifacts
    from odt.core.model.training_info import TrainingInfo as TrainingInfo
    from odt.data.new_data import NewData as NewData
    from odt.data.sources import DataSet as DataSet
    from odt.errors import DataError as DataError
    from odt.errors import LostFileError as LostFileError
    from odt.errors import MissingPackageError as MissingPackageError
    from odt.errors import ModelError as ModelError
    from odt.errors import OdtError as OdtError
    from odt.errors import OdtWarning as OdtWarning
    from odt.errors import OptionError as OptionError
    from odt.errors import ShapeError as ShapeError
    from odt.errors import TrainingError as TrainingError
    from odt.errors import UnsupportedError as UnsupportedError
    from odt.evaluation.classification import ClassificationReport as ClassificationReport
    from odt.evaluation.classification import classification_report as classification_report
    from odt.evaluation.classification import sample_losses as sample_losses
    from odt.evaluation.evaluation import Evaluation as Evaluation
    from odt.evaluation.evaluation import evaluate as evaluate
    from odt.evaluation.prediction import predict as predict
    from odt.kernels.rows.scheduledef import Schedule as Schedule
    from odt.kernels.rows.schedules import ConstantRate as ConstantRate
    from odt.kernels.rows.schedules import CosineDecay as CosineDecay
    from odt.kernels.rows.schedules import CosineDecayRestarts as CosineDecayRestarts
    from odt.kernels.rows.schedules import ExponentialDecay as ExponentialDecay
    from odt.kernels.rows.schedules import OneCycle as OneCycle
    from odt.kernels.rows.schedules import PolynomialDecay as PolynomialDecay
    from odt.kernels.rows.schedules import ReduceOnPlateau as ReduceOnPlateau
    from odt.kernels.rows.schedules import StepDecay as StepDecay
    from odt.losses import *  # noqa: F403 - a class for each row of kernels/losses
    from odt.models.creation import new_model as new_model
    from odt.models.cutting import cut as cut
    from odt.models.cutting import join as join
    from odt.models.model import Model as Model
    from odt.models.model import NodeInfo as NodeInfo
    from odt.models.model import TensorInfo as TensorInfo
    from odt.models.model import load_model as load_model
    from odt.models.model import read_training_info as read_training_info
    from odt.models.model import write_circle_plus as write_circle_plus
    from odt.models.quantization import QuantizedModel as QuantizedModel
    from odt.models.quantization import quantize as quantize
    from odt.models.transfer import lora as lora
    from odt.models.transfer import replace_head as replace_head
    from odt.optimizers import *  # noqa: F403 - a class for each row of kernels/optimizers
    from odt.personalization.personalization import Personalization as Personalization
    from odt.personalization.personalization import personalize as personalize
    from odt.training.callbacks import Callback as Callback
    from odt.training.callbacks import CSVLogger as CSVLogger
    from odt.training.callbacks import EarlyStopping as EarlyStopping
    from odt.training.callbacks import History as History
    from odt.training.callbacks import LambdaCallback as LambdaCallback
    from odt.training.callbacks import Logs as Logs
    from odt.training.callbacks import ModelCheckpoint as ModelCheckpoint
    from odt.training.callbacks import ReduceLROnPlateau as ReduceLROnPlateau
    from odt.training.checking import CheckResult as CheckResult
    from odt.training.checking import check as check
    from odt.training.checkpoint_state import CheckpointState as CheckpointState
    from odt.training.planning import MemoryForecast as MemoryForecast
    from odt.training.planning import plan as plan
    from odt.training.rate_test import RateTest as RateTest
    from odt.training.teacher import Teacher as Teacher
    from odt.training.trainable import Trainable as Trainable
    from odt.training.trainable import bias_only as bias_only
    from odt.training.trainable import freeze as freeze
    from odt.training.trainable import last as last
    from odt.training.trainable import select as select
    from odt.training.trainer import Trainer as Trainer
    from odt.training.weights import Arrays as Arrays

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
    "MissingPackageError": "odt.errors",
    "Model": "odt.models.model",
    "TensorInfo": "odt.models.model",
    "NodeInfo": "odt.models.model",
    "load_model": "odt.models.model",
    "read_training_info": "odt.models.model",
    "new_model": "odt.models.creation",
    "replace_head": "odt.models.transfer",
    "lora": "odt.models.transfer",
    "quantize": "odt.models.quantization",
    "QuantizedModel": "odt.models.quantization",
    "cut": "odt.models.cutting",
    "join": "odt.models.cutting",
    "write_circle_plus": "odt.models.model",
    "TrainingInfo": "odt.core.model.training_info",
    "Trainer": "odt.training.trainer",
    "CheckpointState": "odt.training.checkpoint_state",
    "generate_artifacts": "odt.artifacts.artifacts",
    "Artifacts": "odt.artifacts.artifacts",
    "classification_report": "odt.evaluation.classification",
    "ClassificationReport": "odt.evaluation.classification",
    "sample_losses": "odt.evaluation.classification",
    "evaluate": "odt.evaluation.evaluation",
    "Evaluation": "odt.evaluation.evaluation",
    "predict": "odt.evaluation.prediction",
    "NewData": "odt.data.new_data",
    "OdtWarning": "odt.errors",
    "Schedule": "odt.kernels.rows.scheduledef",
    "ConstantRate": "odt.kernels.rows.schedules",
    "StepDecay": "odt.kernels.rows.schedules",
    "ExponentialDecay": "odt.kernels.rows.schedules",
    "PolynomialDecay": "odt.kernels.rows.schedules",
    "CosineDecay": "odt.kernels.rows.schedules",
    "CosineDecayRestarts": "odt.kernels.rows.schedules",
    "OneCycle": "odt.kernels.rows.schedules",
    "ReduceOnPlateau": "odt.kernels.rows.schedules",
    "Trainable": "odt.training.trainable",
    "last": "odt.training.trainable",
    "select": "odt.training.trainable",
    "freeze": "odt.training.trainable",
    "bias_only": "odt.training.trainable",
    "Callback": "odt.training.callbacks",
    "History": "odt.training.callbacks",
    "Logs": "odt.training.callbacks",
    "EarlyStopping": "odt.training.callbacks",
    "ModelCheckpoint": "odt.training.callbacks",
    "ReduceLROnPlateau": "odt.training.callbacks",
    "CSVLogger": "odt.training.callbacks",
    "LambdaCallback": "odt.training.callbacks",
    "RateTest": "odt.training.rate_test",
    "Teacher": "odt.training.teacher",
    "personalize": "odt.personalization.personalization",
    "Personalization": "odt.personalization.personalization",
    "DataSet": "odt.data.sources",
    "Arrays": "odt.training.weights",
    "plan": "odt.training.planning",
    "MemoryForecast": "odt.training.planning",
    "check": "odt.training.checking",
    "CheckResult": "odt.training.checking",
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
