"""Encode a user's text so that nothing in it can become a control token."""

import copy
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer

from dicast_server.models.errors import ModelRefused

# What may stand around a control token's spelling in a text that tries to forge one.
_SURROUNDINGS = ("{}", " {}", "x{}x", "\n{}\n")
# Neither an assigned character nor one that any vocabulary spells, so that it becomes the
# unknown token where there is one.
_UNKNOWN = "\U000e0042\ufdd0"


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """A fast tokenizer beside its double that recognises no added token.

    Attributes:
        full: the tokenizer as the model came with it, for text that we wrote ourselves.
        plain: the double, for text that anybody wrote.
        unmarked: another double, which puts no mark before a text; None where `plain` puts none.
        control: the ids that plain text must never become.
        prefix: what the tokenizer puts before a sequence by itself, mostly one BOS, often nothing.
        bos: the token that the tokenizer calls its BOS, whether it puts it anywhere or not.
        eos: the token that ends a text, if the tokenizer has one.
        longest: no token covers more bytes of a text (UTF-8) than this.
        fingerprint: SHA-256 of the tokenizer and its double, in hexadecimal.
    """

    full: Tokenizer
    plain: Tokenizer
    unmarked: Tokenizer | None
    control: frozenset[int]
    prefix: tuple[int, ...]
    bos: int | None
    eos: int | None
    longest: int
    fingerprint: str

    @classmethod
    def of(cls, tokenizer: Any) -> "TextEncoder":
        """Make the double and prove on every added token that it cannot be forged.

        Args:
            tokenizer: transformers' fast tokenizer, or mlx-lm's wrapper around one; it is left
                as it is.

        Raises:
            ModelRefused: the tokenizer is a slow one, or its plain vocabulary spells a control
                token.
        """
        # mlx-lm's wrapper hands on all attributes but the private ones, and is_fast is public.
        if not getattr(tokenizer, "is_fast", False):
            inner = getattr(tokenizer, "_tokenizer", tokenizer)
            raise ModelRefused(
                f"the tokenizer {type(inner).__name__} is written in Python, and only those with a "
                "tokenizer.json are supported: convert it to a fast one."
            )
        described = json.loads(tokenizer.backend_tokenizer.to_str())
        # Either of them would silently change what is encoded.
        described.update(truncation=None, padding=None)
        full = _build(described)
        plainly = {**described, "added_tokens": [], "post_processor": None}
        plain, unmarked = _build(plainly), _without_marks(plainly)
        template = tokenizer.chat_template
        return cls(
            full=full,
            plain=plain,
            unmarked=None if unmarked == plainly else _build(unmarked),
            control=_control(described["added_tokens"], plain, json.dumps(template, ensure_ascii=False)),
            prefix=_prefix(full),
            bos=_token(tokenizer.bos_token_id),
            eos=_token(tokenizer.eos_token_id),
            longest=_longest(plain, described["normalizer"]),
            fingerprint=_digest(full, plain),
        )

    @property
    def doubles(self) -> tuple["TextEncoder", ...]:
        """The encoder itself, and where it puts a mark before a text, one that does not.

        SentencePiece's tokenizers mark the beginning of a text, and some of them only where no
        control token stands before it.
        """
        return (self,) if self.unmarked is None else (self, self._without_marks())

    def control_id(self, spelling: str) -> int | None:
        """The control token of this spelling, looked up and not read out of a text."""
        id_ = self.full.token_to_id(spelling)
        return id_ if id_ in self.control else None

    def begun(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The ids of a whole prompt, with the BOS before them exactly once.

        Some templates print the BOS that the tokenizer adds too, some print it twice.
        """
        ids = tuple(ids)
        once = self.prefix or (() if self.bos is None or self.bos != next(iter(ids), None) else (self.bos,))
        while once and ids[: len(once)] == once:
            ids = ids[len(once) :]
        return (*once, *ids)

    def following(self, control: int | None, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts as they are in a prompt, right behind a control token.

        Unlike `encode_texts` it takes control tokens in a text for what they say: for texts of our own,
        or to find out.

        Args:
            control: the token before each text; None for texts that begin a prompt.
            texts: what is encoded, each by itself.
        """
        if control is None:
            return [each.ids for each in self.full.encode_batch_fast(texts, add_special_tokens=False)]
        spelling = self.full.id_to_token(control) or ""
        encoded = self.full.encode_batch_fast([spelling + text for text in texts], add_special_tokens=False)
        if all(each.ids[:1] == [control] for each in encoded):
            return [each.ids[1:] for each in encoded]
        # The tokenizer does not read this token out of text; what follows one is no beginning.
        return self._without_marks().encode_texts(texts)

    def encode_text(self, text: str) -> list[int]:
        """The ids of a text in which no added token is recognised, special or not.

        Nothing is put before or after it.
        """
        return self.encode_texts([text])[0]

    def encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts; faster than one by one, and others run meanwhile."""
        encoded = self.plain.encode_batch_fast(texts, add_special_tokens=False)
        return [self._checked(each.ids) for each in encoded]

    def locate_texts(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """The ids of several texts, and where in its text each token begins: the place of a character.

        Where several tokens make up one character, all of them begin at it.
        """
        encoded = self.plain.encode_batch(texts, add_special_tokens=False)
        return [(self._checked(each.ids), [begins for begins, _ in each.offsets]) for each in encoded]

    def least_tokens(self, text: str) -> int:
        """How many tokens a text has at least, without encoding it."""
        return len(text.encode()) // self.longest

    def _checked(self, ids: list[int]) -> list[int]:
        # Proved at load for every token by itself; a text in a million that finds another way is worth
        # this look at each.
        if not self.control.isdisjoint(ids):
            raise ValueError("a text was encoded to a control token of the model")
        return ids

    def _without_marks(self) -> "TextEncoder":
        return self if self.unmarked is None else replace(self, plain=self.unmarked, unmarked=None)


def _build(described: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(described, ensure_ascii=False))


def _digest(*tokenizers: Tokenizer) -> str:
    digest = hashlib.sha256()
    for tokenizer in tokenizers:
        digest.update(tokenizer.to_str().encode())
    return digest.hexdigest()


def _token(id_: object) -> int | None:
    # Some configurations list several.
    return id_ if isinstance(id_, int) else None


def _longest(plain: Tokenizer, normalizer: object) -> int:
    # A token's spelling has no fewer bytes than what it stands for: the letters that stand for bytes have
    # one or two, a mark of a word's beginning has three. A normalizer may shorten a text before.
    spelled = max(len(token.encode()) for token in plain.get_vocab())
    return spelled if normalizer is None else 4 * spelled


def _prefix(full: Tokenizer) -> tuple[int, ...]:
    bare = full.encode("x", add_special_tokens=False).ids
    whole = full.encode("x", add_special_tokens=True).ids
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return tuple(whole[:start])
    return ()


def _control(added: Iterable[dict[str, Any]], plain: Tokenizer, template: str) -> frozenset[int]:
    """The added tokens' ids, less those that are a part of ordinary text.

    Some vocabularies list ordinary text among the added tokens (Gemma its line breaks and HTML
    tags): where such a token is not special, the plain vocabulary spells it too, and the chat
    template does not use it, it is text.
    """
    tokens = {token["id"]: token for token in added}
    unknown = set(plain.encode(_UNKNOWN, add_special_tokens=False).ids) & set(tokens)
    attempts = [form.format(each["content"]) for each in tokens.values() for form in _SURROUNDINGS]
    spelled: set[int] = set()
    for encoding in plain.encode_batch_fast(attempts, add_special_tokens=False):
        spelled.update(encoding.ids)
    text = set(unknown)
    for id_ in (spelled & set(tokens)) - unknown:
        content: str = tokens[id_]["content"]
        used = not content.isspace() and json.dumps(content, ensure_ascii=False)[1:-1] in template
        if tokens[id_]["special"] or used:
            raise ModelRefused(
                f"the tokenizer spells its control token {content!r} in plain text too, so that a "
                "user's text could forge it."
            )
        text.add(id_)
    return frozenset(set(tokens) - text)


def _without_marks(described: dict[str, Any]) -> dict[str, Any]:
    return {
        **described,
        "normalizer": _unmarked(described["normalizer"], "normalizers"),
        "pre_tokenizer": _unmarked(described["pre_tokenizer"], "pretokenizers"),
    }


def _unmarked(part: dict[str, Any] | None, children: str) -> dict[str, Any] | None:
    """A normalizer or pre-tokenizer, described, without what marks a text's beginning."""
    if part is None or part["type"] == "Prepend":
        return None
    part = copy.copy(part)
    if part["type"] == "Metaspace":
        part["prepend_scheme"] = "never"
    elif part["type"] == "ByteLevel":
        part["add_prefix_space"] = False
    elif part["type"] == "Sequence":
        kept = (_unmarked(child, children) for child in part[children])
        part[children] = [child for child in kept if child is not None]
    return part
