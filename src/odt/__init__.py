"""Fine-tunes deployed Circle, TFLite and ONNX models on the device that runs them."""

import importlib
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

# Public name → its module, loaded when the name is first used: `import odt` stays instant. Type
# checkers read __init__.pyi, which `make pages` writes from these tables.
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
    "convert_gguf": "odt.models.language",
    "load_tokenizer": "odt.datasets.tokenizer",
    "BytePairs": "odt.core.data.byte_pairs",
    "replace_head": "odt.models.transfer",
    "lora": "odt.models.transfer",
    "quantize": "odt.models.quantization",
    "QuantizedModel": "odt.models.quantization",
    "LayerNoise": "odt.core.quantization.quantize_model",
    "compile": "odt.compilation.compilation",
    "CProgram": "odt.compilation.compilation",
    "cut": "odt.models.cutting",
    "join": "odt.models.cutting",
    "write_circle_plus": "odt.training.circle_plus",
    "remove_training_info": "odt.training.circle_plus",
    "TrainingInfo": "odt.core.model.training_info",
    "Trainer": "odt.training.trainer",
    "CheckpointState": "odt.training.checkpoint_state",
    "generate_artifacts": "odt.artifacts.artifacts",
    "Artifacts": "odt.artifacts.artifacts",
    "classification_report": "odt.evaluation.classification",
    "ClassificationReport": "odt.evaluation.classification",
    "sample_losses": "odt.evaluation.classification",
    "compare_models": "odt.evaluation.comparison",
    "Difference": "odt.evaluation.comparison",
    "Change": "odt.evaluation.comparison",
    "compare_outputs": "odt.evaluation.comparison",
    "Agreement": "odt.evaluation.comparison",
    "evaluate": "odt.evaluation.evaluation",
    "Evaluation": "odt.evaluation.evaluation",
    "predict": "odt.evaluation.prediction",
    "report": "odt.runs.report",
    "Run": "odt.runs.run",
    "read_run": "odt.runs.run",
    "LiveReport": "odt.live.live",
    "compare_runs": "odt.runs.comparison",
    "RunComparison": "odt.runs.comparison",
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
    "Plot": "odt.charts.plot",
    "Teacher": "odt.training.teacher",
    "personalize": "odt.personalization.personalization",
    "Personalization": "odt.personalization.personalization",
    "DataSet": "odt.data.sources",
    "Arrays": "odt.training.weights",
    "plan": "odt.training.planning",
    "Board": "odt.training.boards",
    "benchmark_board": "odt.training.board_measurement",
    "MemoryForecast": "odt.training.planning",
    "check": "odt.training.checking",
    "CheckResult": "odt.training.checking",
}

MODULES = ("augment", "federated")  # public names that are modules

# All public names of these modules are odt's too: a class for each row of these folders of kernels.
ROWS = ("odt.optimizers", "odt.losses")


def __getattr__(name: str) -> Any:
    if name in MODULES or f"odt.{name}" in ROWS:
        return importlib.import_module(f"odt.{name}")
    paths = (PUBLIC[name],) if name in PUBLIC else ROWS
    for path in paths:
        module = _loaded(path)
        if name in PUBLIC or name in module.__all__:
            value = getattr(module, name)
            globals()[name] = value
            return value
    from odt.habits import missing_attribute

    raise missing_attribute(name, __dir__)


def _loaded(path: str) -> ModuleType:
    from odt.collector import quick_imports  # `import odt` loads nothing

    with quick_imports():
        return importlib.import_module(path)


def __dir__() -> list[str]:
    rows = (name for path in ROWS for name in importlib.import_module(path).__all__)
    return sorted({*globals(), *PUBLIC, *MODULES, *rows})
