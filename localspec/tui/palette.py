"""The command palette: every action that can be done now, with its key."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider

from localspec.tui.keys import shown

if TYPE_CHECKING:
    from textual.binding import ActiveBinding


class Actions(Provider):
    """The actions of the screen that is shown and of the app: those with an id, so none of a widget's own keys."""

    def _actions(self) -> "Iterator[tuple[str, str, ActiveBinding]]":
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.id and binding.description and active.enabled and binding.id not in seen:
                seen.add(binding.id)
                yield binding.tooltip or binding.description, f"{shown(binding.key)}  ·  {binding.id}", active

    async def discover(self) -> Hits:
        for title, keys, active in self._actions():
            yield DiscoveryHit(title, partial(self._run, active), help=keys)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for title, keys, active in self._actions():
            score = max(matcher.match(title), matcher.match(keys) * 0.7)
            if score > 0:
                yield Hit(score, matcher.highlight(title), partial(self._run, active), help=keys)

    async def _run(self, active: "ActiveBinding") -> None:
        await self.app.run_action(active.binding.action, active.node)
