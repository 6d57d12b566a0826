# Written by tools/write_stubs.py from __init__.py.
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
from odt.losses import *
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
from odt.optimizers import *
from odt.personalization.personalization import Personalization as Personalization
from odt.personalization.personalization import personalize as personalize
from odt.training.callbacks import CSVLogger as CSVLogger
from odt.training.callbacks import Callback as Callback
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

PUBLIC: dict[str, str]
MODULES: tuple[str, ...]
ROWS: tuple[str, ...]
__version__: str
