"""Build a tokenizer from a GGUF file's metadata."""

from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from dicast_server.models.errors import ModelRefused

KEY = "tokenizer.ggml."
CONTROL, USER_DEFINED = 3, 4

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _gpt2() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _splits(*patterns: str) -> Callable[[], Any]:
    def build() -> Any:
        parts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*parts, bytes_])

    return build


# How `tokenizer.ggml.pre` cuts a text into words. "default" is what llama.cpp does with a file
# whose converter did not know better, and is not GPT-2's cut.
PRE_TOKENIZERS: Mapping[str, Callable[[], Any]] = {
    "smollm": _smollm,
    "gpt-2": _gpt2,
    "qwen2": _splits(_WORDS % r"\p{N}"),
    "llama-bpe": _splits(_WORDS % r"\p{N}{1,3}"),
    "default": _splits(r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}
# Where a word that is in the vocabulary as a whole is taken without merging, and where a text
# begins with BOS unless the file says otherwise.
WHOLE_WORDS = BEGINS_WITH_BOS = frozenset({"llama-bpe"})
# Qwen composes accents before it cuts; the file does not say so.
COMPOSES = frozenset({"qwen2"})


def build(metadata: Mapping[str, Any], file: str) -> PreTrainedTokenizerFast:
    """The tokenizer that a file describes, with its chat template.

    Args:
        metadata: the file's metadata.
        file: the file's name, for the messages.

    Raises:
        ModelRefused: it is of a kind that is not known here, or its lists do not fit together.
    """
    kind = metadata.get(f"{KEY}model")
    if kind != "gpt2":
        raise ModelRefused(
            f"{file} has a tokenizer of the kind {kind!r}, and only byte-level BPE ('gpt2') is "
            "read from GGUF: use the model's MLX or Hugging Face folder."
        )
    pre = metadata.get(f"{KEY}pre", "default")
    if pre not in PRE_TOKENIZERS:
        raise ModelRefused(
            f"{file} has the pre-tokenizer {pre!r}, which is not one of "
            f"{', '.join(PRE_TOKENIZERS)}: use the model's MLX or Hugging Face folder."
        )
    try:
        words: list[str] = metadata[f"{KEY}tokens"]
        types: list[int] = metadata.get(f"{KEY}token_type", [1] * len(words))
        merges = [_pair(merge) for merge in metadata[f"{KEY}merges"]]
        if len(types) != len(words):
            raise ValueError("as many token types as tokens are needed")
        vocabulary = {word: id_ for id_, word in enumerate(words)}
        backend = Tokenizer(
            BPE(vocab=vocabulary, merges=merges, fuse_unk=False, ignore_merges=pre in WHOLE_WORDS)
        )
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelRefused(f"{file} has a tokenizer that does not fit together ({error}).") from error
    if pre in COMPOSES:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = PRE_TOKENIZERS[pre]()
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(
        [
            AddedToken(word, special=type_ == CONTROL, normalized=False)
            for word, type_ in zip(words, types, strict=True)
            if type_ in (CONTROL, USER_DEFINED)
        ]
    )
    bos, eos = _token(metadata, "bos", words, file), _token(metadata, "eos", words, file)
    if metadata.get(f"{KEY}add_bos_token", pre in BEGINS_WITH_BOS) and bos is not None:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, vocabulary[bos])]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=bos,
        eos_token=eos,
        chat_template=metadata.get("tokenizer.chat_template"),
        clean_up_tokenization_spaces=False,
    )


def _pair(merge: str) -> tuple[str, str]:
    left, right = merge.split(" ")
    return left, right


def _token(metadata: Mapping[str, Any], role: str, words: list[str], file: str) -> str | None:
    id_ = metadata.get(f"{KEY}{role}_token_id")
    if id_ is None:
        return None
    if not 0 <= id_ < len(words):
        raise ModelRefused(f"{file} has a {role} token {id_} outside its vocabulary.")
    token: str = words[id_]
    return token
