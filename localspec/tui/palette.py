"""The command palette: every action that can be done now, with its key."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.dom import DOMNode

from localspec.tui import keys


@dataclass(frozen=True, slots=True)
class _Found:
    binding: Binding
    node: DOMNode

    @property
    def title(self) -> str:
        return self.binding.tooltip or self.binding.description


class Actions(Provider):
    """The actions of the screen that is shown and of the app, those with an id; also of its parts that have not the
    focus, whose keys do nothing now."""

    def _actions(self) -> Iterator[_Found]:
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.id and binding.description and active.enabled and binding.id not in seen:
                seen.add(binding.id)
                yield _Found(binding, active.node)
        for widget in self.screen.query("*"):
            for binding in keys.own(type(widget)) if _ours(widget) and widget.display else ():
                if binding.id and binding.description and binding.id not in seen:
                    seen.add(binding.id)
                    yield _Found(binding, widget)

    def _keys(self, found: _Found) -> str:
        chosen = self.app._keymap.get(found.binding.id or "", found.binding.key)
        return f"{keys.shown(chosen)}  ·  {found.binding.id}"

    async def discover(self) -> Hits:
        for found in self._actions():
            yield DiscoveryHit(found.title, partial(self._run, found), help=self._keys(found))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for found in self._actions():
            shown = self._keys(found)
            score = max(matcher.match(found.title), matcher.match(shown) * 0.7)
            if score > 0:
                yield Hit(score, matcher.highlight(found.title), partial(self._run, found), help=shown)

    async def _run(self, found: _Found) -> None:
        await self.app.run_action(found.binding.action, found.node)


def _ours(widget: DOMNode) -> bool:
    return type(widget).__module__.startswith("localspec.tui.widgets")
