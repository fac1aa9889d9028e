"""The model hub. huggingface-hub finds the file (endpoint, token, revision, ETag, size, whether access is restricted);
the transfer is ours, because it must continue after a break."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from localspec import __version__
from localspec.models import reference
from localspec.models.catalog import HubLocation, ModelFile
from localspec.models.download import LATER, Remote, TryLater, Unreachable, retry_after, transfer
from localspec.models.errors import ModelError, plain
from localspec.models.partial import Part, WrongContent
from localspec.models.progress import Job, Meter, Said
from localspec.models.reference import Reference
from localspec.models.sources.base import SourceFailed
from localspec.models.waiting import NoAnswer, patiently

ANSWER_S = 8.0
"""How long the hub may take to say where a file is; a name look-up that hangs ends here too."""
CONNECT_S = 4.0
"""A hub behind a closed firewall costs this much before the next source is tried."""
CONSENT = ("gemma", "llama")
"""Licences (as the hub spells them, by their beginning) whose terms must be agreed to."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")

Result = TypeVar("Result")


class Unlisted(SourceFailed):
    """The hub could not be asked what a repository holds. `cause` says why."""

    def __init__(self, asked: Reference, cause: str) -> None:
        self.cause = f"{asked} cannot be looked up: {cause}"
        super().__init__(f"{self.cause}; if you have the file, `localspec models add NAME --target FILE` takes it")


class HubSource:
    """Fetches from `endpoint`: the hub or a mirror that speaks like it."""

    name = "hub"

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.host = urlsplit(endpoint).hostname or endpoint

    def offers(self, file: ModelFile) -> str | None:
        return f"{self.endpoint}/{file.hub.repo}" if file.hub else None

    def fetch(self, file: ModelFile, target: Path, job: Job) -> Path:
        if file.hub is None:
            raise SourceFailed(f"{file.key} is in no repository of the hub that is known here")
        part = Part(target, self.name)
        meter = Meter(job, file.key, file.name, self.name, file.size)
        for attempt in (1, 2):
            remote, continued = transfer(
                part, lambda: self._look(file, job, meter), lambda status: self._refusal(file, status), job, meter
            )
            expected = file.sha256 or (remote.etag if _SHA256.fullmatch(remote.etag or "") else None)
            try:
                part.finish(remote.size, expected, job, meter)
                break
            except WrongContent as error:
                # Bytes of an earlier run may have been damaged since; only a download in one go is a verdict.
                if attempt == 2 or not continued:
                    raise
                meter.say(f"{error}; starting again")
        return target

    def describe(self, asked: Reference, job: Job) -> list[ModelFile]:
        """The files that `asked` means, with what the hub knows of them: pinned revision, size, sha256, licence."""

        def say(text: str) -> None:
            job.report(Said(str(asked), text))

        say(f"asking {self.host} what {asked.repo} holds")
        api = _library().HfApi(
            endpoint=self.endpoint, token=_token(), library_name="localspec", library_version=__version__
        )
        try:
            info = self._asked(
                lambda: api.model_info(asked.repo, files_metadata=True, timeout=_timeout()), asked.repo, job, say
            )
        except (Unreachable, TryLater) as error:
            raise Unlisted(asked, str(error)) from error
        siblings = {one.rfilename: one for one in info.siblings or []}
        licence = _licence(info)
        files = []
        for path in reference.choose(siblings, asked):
            lfs = siblings[path].lfs
            name = path.rsplit("/", 1)[-1]
            if ".." in path.split("/") or "\\" in path or not name.isprintable():
                raise ModelError(f"{asked.repo} holds a file with an unusable name: {plain(path)}")
            files.append(
                ModelFile(
                    key=asked.repo,
                    name=name,
                    size=siblings[path].size,
                    sha256=lfs.sha256 if lfs else None,
                    licence=licence,
                    licence_url=f"{self.endpoint}/{asked.repo}",
                    consent=licence is not None and licence.lower().startswith(CONSENT),
                    quantisation=reference.quantisation(name),
                    hub=HubLocation(asked.repo, path, info.sha),
                )
            )
        return files

    def _look(self, file: ModelFile, job: Job, meter: Meter) -> Remote:
        assert file.hub is not None
        hub = _library()
        location = file.hub
        token = _token()
        url = hub.hf_hub_url(location.repo, location.path, revision=location.revision, endpoint=self.endpoint)
        headers = hub.utils.build_hf_headers(
            token=token or False, library_name="localspec", library_version=__version__
        )
        found = self._asked(
            lambda: hub.get_hf_file_metadata(url, timeout=_timeout(), headers=headers, endpoint=self.endpoint),
            location.repo, job, meter.say,
        )  # fmt: skip
        etag = found.etag
        if file.sha256 and etag and _SHA256.fullmatch(etag) and etag != file.sha256:
            raise WrongContent(
                f"{self.host} has another {file.name} (sha256 {etag[:12]}… instead of {file.sha256[:12]}…); "
                "nothing was fetched"
            )
        if None not in (file.size, found.size) and file.size != found.size:
            raise WrongContent(
                f"{self.host} has another {file.name} ({found.size} bytes instead of {file.size}); nothing was fetched"
            )
        meter.total = found.size or file.size
        return Remote(url, headers, meter.total, etag)

    def _asked(self, call: Callable[[], Result], repo: str, job: Job, say: Callable[[str], None]) -> Result:
        """A question to the hub, its failures in words."""
        import httpx2
        from huggingface_hub import errors

        try:
            return patiently(call, f"{self.host} to answer", ANSWER_S, job, say)
        except NoAnswer as error:
            raise Unreachable(f"{error} from {self.host}{_proxy_words()}") from error
        except errors.GatedRepoError as error:
            raise SourceFailed(self._restricted(repo)) from error
        except errors.RepositoryNotFoundError as error:
            raise SourceFailed(self._not_there(repo)) from error
        except errors.RevisionNotFoundError as error:
            raise SourceFailed(f"{repo} at {self.host} no longer has the pinned revision") from error
        except errors.EntryNotFoundError as error:
            raise SourceFailed(f"{repo} at {self.host} no longer has this file") from error
        except errors.HfHubHTTPError as error:
            self._status(repo, error.response.status_code, error.response.headers, error)
        except (httpx2.HTTPError, OSError) as error:
            raise Unreachable(self._network_words(error)) from error

    def _status(self, repo: str, status: int, headers: Any, error: Exception) -> NoReturn:
        if status in LATER:
            raise TryLater(f"{self.host} answers {status}", retry_after(headers)) from error
        raise self._refused(repo, status) from error

    def _refusal(self, file: ModelFile, status: int) -> SourceFailed:
        return self._refused(file.hub.repo if file.hub else file.key, status)

    def _refused(self, repo: str, status: int) -> SourceFailed:
        if status == 401:
            return SourceFailed(self._not_there(repo))
        if status == 403:
            return SourceFailed(self._restricted(repo))
        if status == 404:
            return SourceFailed(f"{repo} at {self.host} has no such file")
        return SourceFailed(f"{self.host} answers {status}")

    def _restricted(self, repo: str) -> str:
        page = f"{self.endpoint}/{repo}"
        if _token():
            return f"{repo} gives access on request: agree to its terms at {page} with the account of your token"
        return f"{repo} gives access on request: agree to its terms at {page}, then run `hf auth login` or set HF_TOKEN"

    def _not_there(self, repo: str) -> str:
        cure = "look whether your token (HF_TOKEN) is right" if _token() else "if it is private, run `hf auth login`"
        return f"{self.host} shows no repository {repo}: look at the spelling, and {cure}"

    def _network_words(self, error: Exception) -> str:
        cause = plain(str(error)) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in cause:
            return (
                f"the certificate of {self.host} is not trusted on this machine: when your organisation inspects "
                "traffic, set SSL_CERT_FILE to the file with its certificate authority"
            )
        return f"cannot reach {self.host}: {cause}{_proxy_words()}"


def _proxy_words() -> str:
    """Names the variables, never their values: those can hold a password."""
    used = [name for name in _PROXIES if os.environ.get(name)]
    return f" (through the proxy in {used[0]})" if used else ""


def _licence(info: Any) -> str | None:
    found = getattr(info.card_data, "license_name", None) or getattr(info.card_data, "license", None)
    if isinstance(found, str):
        return plain(found, 60)
    tags = (tag.removeprefix("license:") for tag in info.tags or [] if tag.startswith("license:"))
    return next((plain(tag, 60) for tag in tags), None)


def _timeout() -> Any:
    import httpx2

    return httpx2.Timeout(ANSWER_S, connect=CONNECT_S)


def _token() -> str | None:
    token: str | None = _library().get_token()
    return token


def _library() -> Any:
    """huggingface-hub, told not to look up and report which tool it runs under: only the download was asked for."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import huggingface_hub
    from huggingface_hub import constants

    constants.HF_HUB_DISABLE_TELEMETRY = True
    huggingface_hub.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    return huggingface_hub
