"""Finding the backend of a URL among installed distributions, which each test writes to a folder."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.errors import ConfigError
from scheduler.plugins import backend_from_url
from scheduler_backends.memory import MemoryBackend

SHOP = """
from scheduler_backends.memory import MemoryBackend


class ShopBackend(MemoryBackend):
    @classmethod
    def from_url(cls, url):
        made = super().from_url("memory://")
        made.url = url
        return made
"""


class Site:
    """A folder on the import path into which a test installs distributions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install(self, *offers: str, name: str = "stranger", **modules: str) -> None:
        """Install a distribution with an extra `shop`, these entry points, and modules in a package of its name."""
        info = self._folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\nProvides-Extra: shop\n")
        (info / "entry_points.txt").write_text("\n".join(["[scheduler.backends]", *offers]))
        package = self._folder / name
        package.mkdir()
        (package / "__init__.py").touch()
        for module, source in modules.items():
            (package / f"{module}.py").write_text(source)
        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(tmp_path)
    yield Site(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("stranger", "rival")]:
        del sys.modules[name]


def refusal(url: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        backend_from_url(url)  # type: ignore[arg-type]  # some tests are about that
    assert caught.value.field == "url"
    return caught.value


@pytest.mark.parametrize("url", ["memory", "memory://", "Memory://", "MEMORY"])
def test_memory_needs_no_more_than_its_name(url: str) -> None:
    backend = backend_from_url(url)
    assert isinstance(backend, MemoryBackend)
    backend.close()


def test_options_of_the_url_reach_the_backend() -> None:
    backend = backend_from_url("memory://?partitions=4")
    assert isinstance(backend, MemoryBackend)
    assert backend.topology("any").active.partitions == 4
    backend.close()
    with pytest.raises(ConfigError, match=r"^colour: "):
        backend_from_url("memory://?colour=blue")


@pytest.mark.parametrize(
    ("url", "handed_over"),
    [
        ("shop", "shop://"),
        ("SHOP://User:Pa%2Fss@Host/x?y=Z", "shop://User:Pa%2Fss@Host/x?y=Z"),
        ("shop://a://b", "shop://a://b"),
    ],
)
def test_a_strangers_package_can_add_a_backend(site: Site, url: str, handed_over: str) -> None:
    """It gets the whole URL. Only the scheme, which is case-insensitive, is lower-cased."""
    site.install("shop = stranger.shop:ShopBackend", shop=SHOP)
    backend = backend_from_url(url)
    assert (type(backend).__module__, vars(backend)["url"]) == ("stranger.shop", handed_over)
    backend.close()


def test_a_scheme_may_hold_a_plus(site: Site) -> None:
    site.install("shop+cluster = stranger.shop:ShopBackend", shop=SHOP)
    backend_from_url("shop+cluster://a,b").close()


@pytest.mark.parametrize("url", ["nosuch", "nosuch://host"])
def test_an_unknown_scheme_lists_the_known_ones(site: Site, url: str) -> None:
    site.install("shop = stranger.shop:ShopBackend")
    text = str(refusal(url))
    assert "nosuch://" in text
    assert "memory" in text
    assert "shop" in text


@pytest.mark.parametrize(
    "url", ["", "://host", "user:hunter2@host", ":hunter2@host/0", "/var/x.db", "1a://", "a b://", "memory:"]
)
def test_a_url_without_a_scheme_is_refused_and_not_shown(url: str) -> None:
    text = str(refusal(url))
    assert "must begin with a scheme" in text
    assert "hunter2" not in text


def test_an_endless_scheme_is_not_repeated() -> None:
    assert len(str(refusal("x" * 1_000_000))) < 200


@pytest.mark.parametrize("url", [None, 5, b"memory://", MemoryBackend])
def test_a_url_is_text(url: object) -> None:
    assert "must be text" in str(refusal(url))


def test_a_missing_driver_names_the_extra_to_install(site: Site) -> None:
    site.install("shop = stranger.shop:ShopBackend", shop="import nosuch_driver.client")
    error = refusal("shop://:hunter2@host")
    assert error.message == "The Shop backend needs: pip install 'stranger[shop]'"
    assert isinstance(error.__cause__, ModuleNotFoundError)
    assert "hunter2" not in str(error)


def test_a_missing_driver_without_such_an_extra_is_named(site: Site) -> None:
    """The distribution has no extra named like the module, so the error suggests none."""
    site.install("store = stranger.store:StoreBackend", store="import nosuch_driver")
    assert refusal("store://").message == "the backend for store:// cannot be loaded: No module named 'nosuch_driver'"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import stranger.nosuch", "No module named 'stranger.nosuch'"),
        ("from json import nosuch", "cannot import name 'nosuch'"),
        ("", "no attribute 'ShopBackend'"),
    ],
)
def test_a_broken_package_is_not_taken_for_a_missing_driver(site: Site, source: str, why: str) -> None:
    site.install("shop = stranger.shop:ShopBackend", shop=source)
    error = refusal("shop://host")
    assert error.message.startswith("the backend for shop:// cannot be loaded: ")
    assert why in error.message
    assert error.__cause__


@pytest.mark.parametrize("source", ["ShopBackend = 5", "class ShopBackend: pass", "def ShopBackend(url): pass"])
def test_what_is_no_backend_is_refused(site: Site, source: str) -> None:
    site.install("shop = stranger.shop:ShopBackend", shop=source)
    assert "stranger.shop:ShopBackend" in refusal("shop://").message


def test_two_claims_on_one_scheme_are_refused(site: Site) -> None:
    """Otherwise the first one on the path would get the jobs."""
    site.install("shop = stranger.shop:ShopBackend", shop=SHOP)
    site.install("shop = rival.shop:ShopBackend", name="rival", shop=SHOP)
    assert "rival.shop:ShopBackend, stranger.shop:ShopBackend" in refusal("shop://").message


def test_one_offer_found_twice_is_one_offer(site: Site) -> None:
    """Such as an installed copy beside an editable one."""
    site.install("shop = stranger.shop:ShopBackend", shop=SHOP)
    site.install("shop = stranger.shop:ShopBackend", name="rival")
    backend_from_url("shop://").close()


def test_only_the_backend_that_is_asked_for_is_imported() -> None:
    script = """
import sys
from scheduler import backend_from_url
try:
    backend_from_url("nosuch://")
except ValueError:
    print(*[name for name in sys.modules if name.startswith("scheduler_backends")])
backend_from_url("memory")
print(*sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("scheduler_backends")}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["", "scheduler_backends scheduler_backends.memory"]
