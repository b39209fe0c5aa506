"""API keys: who may call. A file names them and holds their hashes, so that it tells no key."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dicast_server.service import failures
from dicast_server.service.calls import Context

_PREFIX = "dk_"
_BYTES = 32
_MOST_NAME = 64


@dataclass(frozen=True, slots=True)
class Keys:
    """Named keys, by the SHA-256 of each in hexadecimal.

    A plain hash is enough: keys are 32 random bytes, which nobody guesses however fast the hash is.
    """

    names: Mapping[str, str]

    def name_of(self, key: str) -> str | None:
        """The name of a key, or None. Takes the same time whichever it is, and whether it is one."""
        presented, found = digest(key), None
        for known, name in self.names.items():
            if hmac.compare_digest(known, presented):
                found = name
        return found

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The keys of a file: a name and a hash a line, as `dicast key` prints them; `#` begins a comment.

        Raises:
            ValueError: with a sentence that says why there are none.
        """
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(f"{path} cannot be read: {reason}") from error
        names: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or not is_name(words[0]) or not _is_digest(words[1]):
                raise ValueError(f"{path}, line {number}: a name and a SHA-256 in hexadecimal are expected")
            if names.setdefault(words[1].lower(), words[0]) != words[0]:
                raise ValueError(f"{path}, line {number}: the key of another name")
        if not names:
            raise ValueError(f"{path} holds no key, so that nobody could call; `dicast key NAME` makes one")
        return cls(names)


class Callers:
    """Says for whom a call is."""

    def __init__(self, keys: Keys | None = None) -> None:
        """Without keys everybody may call."""
        self._keys = keys

    def tenant(self, context: Context) -> str:
        """The name of a call's key, and what it says in x-dicast-tenant; empty where there is neither.

        Raises:
            Failure: UNAUTHENTICATED where there are keys and the call has none of them.
        """
        metadata = dict(context.invocation_metadata() or ())
        said = str(metadata.get("x-dicast-tenant", ""))
        if self._keys is None:
            return said
        scheme, _, key = str(metadata.get("authorization", "")).strip().partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise failures.unauthenticated("an API key is needed: send `authorization: Bearer KEY`")
        name = self._keys.name_of(key.strip())
        if name is None:
            raise failures.unauthenticated("this API key is not known here")
        # No name has a line break, so nobody says another one's.
        return f"{name}\n{said}" if said else name


def digest(key: str) -> str:
    """What the file holds of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def new_key() -> str:
    """A key that nobody else has."""
    return _PREFIX + secrets.token_urlsafe(_BYTES)


def is_name(text: str) -> bool:
    """Whether a key may be called so: printable ASCII, no white space, no `#`."""
    return 0 < len(text) <= _MOST_NAME and all("!" <= letter <= "~" and letter != "#" for letter in text)


def _is_digest(text: str) -> bool:
    return len(text) == hashlib.sha256().digest_size * 2 and all(c in "0123456789abcdefABCDEF" for c in text)
