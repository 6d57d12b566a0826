"""What odt has in place of names of Keras and PyTorch; read only when such a name is used."""

LEAVE_OUT = "Leave it out."
PROCESSOR = "odt computes on the processor."
FEWER = "All samples are used: pass fewer of them."

# Arguments of any function.
ARGUMENTS = {
    "verbose": "Leave it out; `fit`, `evaluate` and `predict` of odt.Trainer have it.",
    "lr": "Pass `learning_rate=` to odt.Trainer.",
    "steps_per_epoch": "`max_steps=` of Trainer.fit ends training, `data_length=` uses the first "
    "samples.",
    "steps": FEWER,
    "validation_steps": FEWER,
    "validation_freq": "Validation follows each epoch.",
    "validation_batch_size": "Pass `batch_size=` to odt.Trainer.",
    "initial_epoch": "Resume with `checkpoint=` of odt.Trainer, which knows the epoch.",
    "return_dict": "The results are a mapping.",
    "max_queue_size": LEAVE_OUT,
    "use_multiprocessing": "Leave it out; `workers=` of odt.Trainer sets the threads.",
    "run_eagerly": LEAVE_OUT,
    "jit_compile": LEAVE_OUT,
    "steps_per_execution": LEAVE_OUT,
    "weighted_metrics": "Pass `metrics=`, which are not weighted.",
    "device": PROCESSOR,
    "custom_objects": LEAVE_OUT,
    "compile": "Leave it out; odt.Trainer takes loss, optimizer and metrics.",
    "safe_mode": LEAVE_OUT,
    "map_location": PROCESSOR,
    "weights_only": LEAVE_OUT,
}

# Arguments of classes, by the base class; those of ARGUMENTS come after them.
CLASS_ARGUMENTS = {
    "Optimizer": {
        "lr": "Write `learning_rate=`.",
        "params": "Leave it out: odt.Trainer has the weights, and its `trainable=` selects them.",
        "betas": "Write `beta_1=` and `beta_2=`.",
        "eps": "Write `epsilon=`.",
        "alpha": "Write `rho=`.",
        "decay": "Pass a schedule as `learning_rate=`, such as odt.ExponentialDecay.",
        "clipnorm": "Pass `clip_norm=` to odt.Trainer.",
        "global_clipnorm": "Pass `clip_norm=` to odt.Trainer.",
        "clipvalue": "Pass `clip_value=` to odt.Trainer.",
        "use_ema": "Pass `ema=` to odt.Trainer.",
        "ema_momentum": "Pass `ema=` to odt.Trainer.",
        "gradient_accumulation_steps": "Pass `accumulate=` to odt.Trainer.",
        "amsgrad": "odt has no AMSGrad.",
        "name": LEAVE_OUT,
    },
    "Loss": {
        "from_logits": "Leave it out: the last operator of the model decides.",
        "reduction": "Pass `reduction=` to odt.Trainer.",
        "weight": "Pass `class_weight=` to Trainer.fit.",
        "ignore_index": "Leave it out: targets of -1 are ignored.",
        "name": LEAVE_OUT,
    },
    "Callback": {
        "verbose": "Leave it out; `verbose=` of Trainer.fit shows progress.",
        "baseline": LEAVE_OUT,
        "start_from_epoch": LEAVE_OUT,
        "save_weights_only": "Leave it out: a path that ends in .odt saves the state of training, "
        "one in .tflite or .circle a model.",
        "save_freq": "Leave it out; `save_every=` of Trainer.fit saves after some steps.",
        "period": LEAVE_OUT,
        "options": LEAVE_OUT,
        "initial_value_threshold": LEAVE_OUT,
        "epsilon": "Write `min_delta=`.",
    },
}

# Attributes of other frameworks, by the class or module in which users look for them.
TRAINER = {
    "compile": "odt.Trainer takes loss, optimizer and metrics when it is made.",
    "get_weights": "`weights` has them by name.",
    "set_weights": "`weights[name] = values` sets them.",
    "parameters": "`weights` has them by name.",
    "named_parameters": "`weights` has them by name.",
    "optimizer": "`learning_rate` reads and sets the rate; `state` has the optimizer's state.",
    "lr": "`learning_rate` reads and sets the rate.",
    "loss": "`evaluate` computes it; odt.Trainer takes it as `loss=`.",
    "metrics": "`evaluate` computes them; odt.Trainer takes them as `metrics=`.",
    "metrics_names": "The results of `evaluate` are a mapping by name.",
    "summary": "`model.summary()` has the operators.",
    "layers": "`model.nodes` are the operators, `weights` the weights by name.",
    "save": "`export` writes the model, `save_checkpoint` the state of training.",
    "save_model": "`export` writes the model, `save_checkpoint` the state of training.",
    "save_weights": "`save_checkpoint` saves weights and optimizer.",
    "load_weights": "`load_checkpoint` restores weights and optimizer.",
    "history": "`fit` returns it.",
    "state_dict": "`state` has weights and optimizer; `save_checkpoint` saves them.",
    "load_state_dict": "`load_checkpoint` restores weights and optimizer.",
    "fit_generator": "`fit` takes iterables of batches.",
    "predict_on_batch": "`predict` computes outputs.",
    "predict_proba": "`predict` computes outputs.",
    "predict_classes": "`predict(x).argmax(1)` are the classes.",
    "score": "`evaluate` computes loss and metrics.",
    "test": "`evaluate` computes loss and metrics.",
    "validate": "`evaluate` computes loss and metrics.",
    "train": "`fit` trains.",
    "eval": "`evaluate` computes loss and metrics.",
    "step": "`apply_gradients` updates the weights.",
    "zero_grad": "`apply_gradients` clears the gradients after the update.",
    "backward": "`forward_backward` computes the gradients of a batch.",
    "training_step": "`train_on_batch` trains a batch.",
    "train_step": "`train_on_batch` trains a batch.",
    "plot": "`fit` returns a history, which has `plot`.",
    **dict.fromkeys(("to", "cuda", "cpu", "device"), PROCESSOR),
}

MODEL = {
    "fit": "odt.Trainer(model).fit(x, y) trains.",
    "train": "odt.Trainer(model).fit(x, y) trains.",
    "train_on_batch": "odt.Trainer(model).train_on_batch(x, y) trains a batch.",
    "compile": "odt.Trainer(model, loss=…, optimizer=…, metrics=…) takes its arguments; "
    "odt.compile writes a C program.",
    "evaluate": "odt.evaluate(model, x, y) evaluates it.",
    "eval": "odt.evaluate(model, x, y) evaluates it.",
    "test": "odt.evaluate(model, x, y) evaluates it.",
    "predict": "odt.predict(model, x) computes outputs.",
    "forward": "odt.predict(model, x) computes outputs.",
    "run": "odt.predict(model, x) computes outputs.",
    "weights": "`parameters` has them by name.",
    "get_weights": "`parameters` has them by name; `weights` of odt.Trainer can be set.",
    "set_weights": "`weights[name] = values` of odt.Trainer sets them.",
    "trainable_weights": "`parameters` has them by name.",
    "trainable_variables": "`parameters` has them by name.",
    "named_parameters": "`parameters` has them by name.",
    "state_dict": "`parameters` has the weights by name.",
    "load_state_dict": "`weights[name] = values` of odt.Trainer sets them.",
    "load_weights": "`load_checkpoint` of odt.Trainer restores weights.",
    "save_weights": "`save` writes the model; `save_checkpoint` of odt.Trainer the weights.",
    "count_params": "`parameters` has the arrays by name, whose sizes add up to it.",
    "layers": "`nodes` are the operators.",
    "modules": "`nodes` are the operators.",
    "children": "`nodes` are the operators.",
    "get_layer": "`nodes` are the operators.",
    "graph": "`nodes` are the operators, `tensors` the tensors; `plot` draws them.",
    "input": "`inputs` are its inputs.",
    "output": "`outputs` are its outputs.",
    "input_shape": "`inputs[0].shape` is the shape.",
    "output_shape": "`outputs[0].shape` is the shape.",
    "name": "`path` is the path of its file.",
    "trainable": "`trainable=` of odt.Trainer selects what trains.",
    "requires_grad_": "`trainable=` of odt.Trainer selects what trains.",
    "export": "`save` writes the model; `export` of odt.Trainer writes the trained one.",
    "convert": "`save` writes the format that the path's ending names.",
    "quantize": "odt.quantize(model, x) quantizes it.",
    "optimizer": "odt.Trainer(model, optimizer=…) takes it.",
    "loss": "odt.Trainer(model, loss=…) takes it.",
    "metrics": "odt.Trainer(model, metrics=…) takes them.",
    "history": "`fit` of odt.Trainer returns it.",
    **dict.fromkeys(("to", "cuda", "cpu", "device"), PROCESSOR),
}

OPTIMIZER = {
    **dict.fromkeys(
        ("step", "apply_gradients", "minimize", "zero_grad"),
        "Pass it to odt.Trainer: `fit` trains, and in a loop `forward_backward` and "
        "`apply_gradients` do.",
    ),
    "lr": "`learning_rate` is the rate.",
    "param_groups": "`learning_rate_of=` of odt.Trainer sets rates of single weights.",
    "state_dict": "`state` of odt.Trainer has the optimizer's state.",
    "load_state_dict": "`load_checkpoint` of odt.Trainer restores the optimizer's state.",
    "variables": "`state` of odt.Trainer has the optimizer's state.",
}

QUANTIZED_MODEL = {
    **dict.fromkeys(("save", "export", "summary", "predict"), "Its `model` is an odt.Model."),
}

CALLBACK = {
    "model": "`trainer` is the trainer, `trainer.model` its model.",
}

PLAIN_LOSS = "odt.{0} is the loss; `loss=` of odt.Trainer takes it."
A_SCHEDULE = "Pass a schedule to `schedule=` of odt.Trainer, such as odt.CosineDecay."
BUILDS = "odt.new_model makes a small network, odt.load_model reads a file of another framework."
SEEDS = "Pass `seed=` to Trainer.fit and odt.new_model."

# Names of the package.
PACKAGE = {
    "Sequential": BUILDS,
    "layers": BUILDS,
    "nn": BUILDS,
    "Module": BUILDS,
    "Input": BUILDS,
    "Dense": BUILDS,
    "keras": "odt has Keras' names itself, such as odt.Adam and odt.EarlyStopping.",
    "optim": "The optimizers are names of odt, such as odt.Adam.",
    "callbacks": "The callbacks are names of odt, such as odt.EarlyStopping.",
    "metrics": 'Metrics are words: `metrics=["accuracy"]` of odt.Trainer.',
    "schedules": "The schedules are names of odt, such as odt.CosineDecay.",
    "lr_scheduler": A_SCHEDULE,
    "LearningRateScheduler": A_SCHEDULE,
    "LRScheduler": A_SCHEDULE,
    "StepLR": "odt.StepDecay is the schedule.",
    "ExponentialLR": "odt.ExponentialDecay is the schedule.",
    "CosineAnnealingLR": "odt.CosineDecay is the schedule.",
    "OneCycleLR": "odt.OneCycle is the schedule.",
    "load": "odt.load_model reads a model, odt.CheckpointState a state of training.",
    "read_model": "odt.load_model reads a model.",
    "save": "odt.Model.save writes a model, odt.Trainer.export a trained one.",
    "save_model": "odt.Model.save writes a model, odt.Trainer.export a trained one.",
    "export": "odt.Trainer.export writes a trained model.",
    "convert": "odt.Model.save writes the format that the path's ending names.",
    "train": "odt.Trainer(model).fit(x, y) trains.",
    "fit": "odt.Trainer(model).fit(x, y) trains.",
    "eval": "odt.evaluate(model, x, y) evaluates a model.",
    "verify": "odt.compare_outputs compares the outputs of two models.",
    "diff": "odt.compare_models compares two models.",
    "inspect": "odt.Model.summary has the operators.",
    "summary": "odt.Model.summary has the operators.",
    "Interpreter": "odt.predict(model, x) computes outputs.",
    "InferenceSession": "odt.predict(model, x) computes outputs.",
    "confusion_matrix": "odt.classification_report has it.",
    "plot_model": "odt.Model.plot draws the operators.",
    "DataLoader": "odt.Trainer.fit takes arrays, an odt.DataSet of files, and iterables of batches "
    "such as a DataLoader of PyTorch.",
    "Dataset": "odt.DataSet is a data set of files.",
    "TensorDataset": "odt.Trainer.fit takes arrays.",
    "tensor": "Arrays of NumPy are the data.",
    "Tensor": "Arrays of NumPy are the data.",
    "from_numpy": "Arrays of NumPy are the data.",
    "no_grad": "odt.predict and odt.evaluate compute no gradients.",
    "manual_seed": SEEDS,
    "set_seed": SEEDS,
    "set_random_seed": SEEDS,
    "to_categorical": 'np.eye(classes, dtype="float32")[labels] are one-hot rows.',
    "one_hot": 'np.eye(classes, dtype="float32")[labels] are one-hot rows.',
    "train_test_split": "Pass `validation_split=` to Trainer.fit.",
    "TensorBoard": "odt.CSVLogger writes the values of each epoch.",
    "BackupAndRestore": "Pass `save_to=` to Trainer.fit.",
    "TerminateOnNaN": "odt.Trainer.fit ends with odt.TrainingError.",
    "ProgbarLogger": "Pass `verbose=` to Trainer.fit.",
    "CrossEntropyLoss": "odt.CategoricalCrossentropy is the loss for one-hot rows, "
    "odt.SparseCategoricalCrossentropy for labels.",
    "NLLLoss": PLAIN_LOSS.format("SparseCategoricalCrossentropy"),
    "BCELoss": PLAIN_LOSS.format("BinaryCrossentropy"),
    "BCEWithLogitsLoss": PLAIN_LOSS.format("BinaryCrossentropy"),
    "MSELoss": PLAIN_LOSS.format("MeanSquaredError"),
    "L1Loss": PLAIN_LOSS.format("MeanAbsoluteError"),
    "HuberLoss": PLAIN_LOSS.format("Huber"),
    "SmoothL1Loss": PLAIN_LOSS.format("Huber"),
    "KLDivLoss": PLAIN_LOSS.format("KLDivergence"),
    "LoRA": "odt.lora adds low-rank adapters.",
    **dict.fromkeys(("device", "cuda"), PROCESSOR),
}

# Class → its attributes; those of the package have no class.
ATTRIBUTES = {
    "Trainer": TRAINER,
    "Model": MODEL,
    "Optimizer": OPTIMIZER,
    "Callback": CALLBACK,
    "QuantizedModel": QUANTIZED_MODEL,
    "": PACKAGE,
}
