"""The live page of runs: follows them while they train, and predicts dropped samples."""

import secrets
import threading
from collections.abc import Sequence
from os import PathLike
from pathlib import Path as File

import odt.live
from odt.arguments import checked_arguments
from odt.core.recipe.option_values import check_whole
from odt.core.storage.closing import Closing
from odt.core.storage.reading import reason
from odt.errors import OdtError, OptionError
from odt.live.files import row_file, temporary_file, with_name
from odt.live.new_samples import RunModel, record_of
from odt.live.page import RunView, live_page, title_of
from odt.live.result_page import results
from odt.live.server import HTML, Answer, Query, Server
from odt.models.model import Path
from odt.runs.comparison import comparison_section
from odt.runs.run import read_run, run_names
from odt.runs.sample_sections import sample_sections

FOLDER = File(odt.live.__path__[0])
MAX_RUNS = 8
MAX_PORT = 65535
WRONG = 24  # samples that are shown


class LiveReport(Closing):
    """A page in the browser that follows runs while they train, like the live page of `odt report`.

    The page shows the curves and the log of each run, and compares several runs. It predicts
    photos, sounds and rows of tables that are dropped on it, as `odt.predict` does, and shows them
    as the model reads them. A server in this process answers the browser on this machine only,
    until `close` or the end of the `with` block. The address has a random part, which is the key to
    the page.

    Attributes:
        url: address of the page.

    Args:
        runs: the folder of a run that `odt train` wrote, or is writing, or several.
        port: port of the server; 0 for a free one.

    Raises:
        OdtError: if a folder is not a run's, or one of its files is damaged.
        OptionError: if there are no runs or too many, or the port cannot be used.
    """

    @checked_arguments
    def __init__(self, runs: Path | Sequence[Path], *, port: int = 0) -> None:
        folders = [runs] if isinstance(runs, str | PathLike) else [*runs]
        check_whole("port", port, 0, MAX_PORT)
        if not 1 <= len(folders) <= MAX_RUNS:
            raise OptionError("runs", f"must be 1 to {MAX_RUNS} folders", len(folders))
        self._paths = [File(folder) for folder in folders]
        self._names = run_names([read_run(path) for path in self._paths])
        self._models = [RunModel() for _ in self._paths]
        # For each run, the sections of its samples, and the version of its files at that time.
        self._samples = ["" for _ in self._paths]
        self._versions = ["" for _ in self._paths]
        self._computing = threading.Lock()  # models compute one after the other
        self._is_closed = False
        token = secrets.token_urlsafe(16)
        pages = {
            "": self._page,
            "live.js": lambda query: _file("live.js", "text/javascript"),
            "live.css": lambda query: _file("live.css", "text/css"),
            "state": self._state,
            "samples": self._sample_sections,
        }
        actions = {"predict": self._predict, "row": self._predict_row}
        try:
            self._server: Server | None = Server(port, token, pages, actions)
        except OSError as e:
            rule = "must be a port that can be used"
            raise OptionError("port", rule, f"{port}: {reason(e)}", "Give another.") from e
        self.url = f"http://127.0.0.1:{self._server.port}/{token}/"

    def close(self) -> None:
        """Stops the server, and an evaluation that runs."""
        self._is_closed = True
        if self._server is not None:
            self._server.stop()
            self._server = None
        with self._computing:
            for model in self._models:
                model.close()

    def _page(self, query: Query) -> Answer:
        """Returns the page without its contents, which `live.js` asks for."""
        try:
            record = record_of(read_run(self._paths[0]))
        except OdtError:  # which the page shows where it shows the run
            record = None
        return Answer.of(live_page(title_of(self._names), self._names, record), HTML)

    def _state(self, query: Query) -> Answer:
        """Returns the parts of the page that change while runs train; none if nothing changed."""
        versions = [RunView.version(path) for path in self._paths]
        version = ".".join(versions)
        if query.get("since") == version:
            return Answer(b"", status=204)
        parts: dict[str, str] = {}
        ended = []
        runs = []
        for k, path in enumerate(self._paths):
            view = RunView.read(path)
            parts |= {f"{name}-{k}": html for name, html in view.parts().items()}
            ended.append(view.has_ended)
            if view.run:
                runs.append(view.run)
        if len(runs) > 1:
            parts["comparison"] = comparison_section(runs, run_names(runs))
        return Answer.json({"version": version, "parts": parts, "ended": ended})

    def _sample_sections(self, query: Query) -> Answer:
        """Returns confusion matrix and samples of a run, computed again if its files change."""
        k = self._number(query)
        with self._computing:
            version = RunView.version(self._paths[k])
            if version != self._versions[k]:
                run = read_run(self._paths[k])
                sections = sample_sections(run, None, WRONG, self._check_open)
                self._samples[k] = "".join(sections)
                self._versions[k] = version
            return Answer.of(self._samples[k], HTML)

    def _predict(self, query: Query, content: bytes) -> Answer:
        """Returns predictions for a dropped file."""
        return self._predict_file(query, query.get("name", ""), content)

    def _predict_row(self, query: Query, content: bytes) -> Answer:
        """Returns the prediction for a typed row."""
        k = self._number(query)
        record = record_of(read_run(self._paths[k]))
        return self._predict_file(query, "row.csv", row_file(record, content))

    def _predict_file(self, query: Query, name: str, content: bytes) -> Answer:
        """Returns predictions for a file; messages name it as the user does."""
        k = self._number(query)
        with self._computing, temporary_file(name, content) as path:
            try:
                predictions = self._models[k].predict(read_run(self._paths[k]), path, name)
            except OdtError as e:
                raise OdtError(with_name(str(e), path, name or "the file")) from e
        return Answer.of(results(predictions), HTML)

    def _check_open(self, done: int, total: int) -> None:
        """Called while an evaluation runs; raises OdtError, which ends it, when the page closes."""
        if self._is_closed:
            raise OdtError("The page has been closed.")

    def _number(self, query: Query) -> int:
        """Returns the number of the run in a query."""
        text = query.get("run", "0")
        if text not in map(str, range(len(self._paths))):
            raise OdtError(f"run: must be one of {len(self._paths)}, but got another.")
        return int(text)


def _file(name: str, kind: str) -> Answer:
    """Returns a file of the page."""
    return Answer((FOLDER / name).read_bytes(), kind)
