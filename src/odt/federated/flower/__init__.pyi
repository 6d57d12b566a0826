# Written by tools/write_stubs.py from __init__.py.
from odt.federated.flower.checked_grid import CheckedGrid as CheckedGrid
from odt.federated.flower.client import client_app as client_app
from odt.federated.flower.in_process import run_in_process as run_in_process
from odt.federated.flower.keys import make_keys as make_keys
from odt.federated.flower.server import server_app as server_app
from odt.federated.flower.settings import client_of as client_of
from odt.federated.flower.settings import trainer_of as trainer_of

PUBLIC: dict[str, str]
