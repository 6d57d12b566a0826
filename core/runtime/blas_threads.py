"""The number of threads of BLAS: the process has one, but each team needs its own."""

from typing import Any


class BlasThreads:
    """Limits the threads of BLAS for teams, and restores their number when no team needs it."""

    def __init__(self) -> None:
        self._teams: set[int] = set()
        self._count = 0  # in force; 0 if nothing is limited
        self._first: Any = None  # limit, which knows the number before it

    def use(self, team: int, count: int) -> None:
        """Limits BLAS for a team, whatever other teams have set.

        Args:
            team: identity of the team.
            count: threads of BLAS.
        """
        self._teams.add(team)
        if count == self._count:
            return
        from threadpoolctl import threadpool_limits

        limit = threadpool_limits(limits=count, user_api="blas")
        self._first, self._count = self._first or limit, count

    def release(self, team: int) -> None:
        """Ends a team's limit, if it has one; restores the number if no other team has one."""
        self._teams.discard(team)
        if self._first is not None and not self._teams:
            self._first.restore_original_limits()
            self._first, self._count = None, 0


BLAS = BlasThreads()
