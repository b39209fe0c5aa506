"""Load a GGUF file of the llama, qwen2 or qwen3 architecture into mlx-lm's own model."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models import llama, qwen2, qwen3
from mlx_lm.models.rope_utils import Llama3RoPE
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from dicast_server.models import gguf_tokenizer
from dicast_server.models.errors import ModelRefused
from dicast_server.models.gguf_file import GgufFile

ARCHITECTURES: Mapping[str, Any] = {"llama": llama, "qwen2": qwen2, "qwen3": qwen3}

# mlx-lm's name of a weight, and the file's.
_OUTER = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_IN_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_ROPE_FACTORS = "rope_freqs.weight"
# Settings that change the arithmetic in a way that mlx-lm's three classes do not have.
_UNSUPPORTED = ("logit_scale", "residual_scale", "embedding_scale", "attention.scale")


@dataclass(frozen=True, slots=True)
class GgufModel:
    """What a GGUF file holds, ready to run.

    Attributes:
        name: the file's own idea of the model's name, else the file's name without its ending.
        family: "llama", "qwen2" or "qwen3".
        model: mlx-lm's model with its parameters evaluated, float32 on a CPU, else float16.
        tokenizer: with the chat template, where the file has one.
        context: the most tokens in one sequence.
        quantization: the type that most weights are stored in, such as "Q4_1".
    """

    name: str
    family: str
    model: nn.Module
    tokenizer: PreTrainedTokenizerFast
    context: int
    quantization: str


def load(path: Path) -> GgufModel:
    """Load a file, one tensor at a time.

    Raises:
        ModelRefused: it is no GGUF, is cut short, or holds something that is not supported; the
            text names the file and what it is about.
    """
    file = GgufFile(path)
    family = file.metadata.get("general.architecture")
    if not isinstance(family, str) or family not in ARCHITECTURES:
        raise ModelRefused(
            f"{file.name} has the architecture {family!r}, and GGUF is read for "
            f"{', '.join(ARCHITECTURES)} only: use the model's MLX or Hugging Face folder."
        )
    tokenizer = gguf_tokenizer.build(file.metadata, file.name)
    settings = _settings(file, family)
    if len(tokenizer) > settings["vocab_size"]:
        raise ModelRefused(
            f"{file.name} has {len(tokenizer)} tokens, and token_embd.weight has only "
            f"{settings['vocab_size']} rows."
        )
    module = ARCHITECTURES[family]
    try:
        model: nn.Module = module.Model(module.ModelArgs.from_dict(settings))
    except (TypeError, ValueError, AssertionError, ZeroDivisionError) as error:
        raise ModelRefused(f"{file.name} describes no {family} model ({error}).") from error
    _fill(model, file, settings)
    _set_rope_factors(model, file, settings)
    model.eval()
    return GgufModel(
        name=str(file.metadata.get("general.basename") or file.metadata.get("general.name") or path.stem),
        family=family,
        model=model,
        tokenizer=tokenizer,
        context=settings["max_position_embeddings"],
        quantization=_quantization(file),
    )


def _settings(file: GgufFile, family: str) -> dict[str, Any]:
    """The model's configuration in mlx-lm's words."""

    def need(key: str) -> Any:
        value = file.metadata.get(f"{family}.{key}")
        if not isinstance(value, int | float) or value <= 0:
            raise ModelRefused(f"{file.name} lacks a usable {family}.{key} in its metadata.")
        return value

    def optional(key: str, default: Any) -> Any:
        return file.metadata.get(f"{family}.{key}", default)

    for key in _UNSUPPORTED:
        if f"{family}.{key}" in file.metadata:
            raise ModelRefused(f"{file.name} sets {family}.{key}, which is not supported.")
    for tensor in ("token_embd.weight", "blk.0.attn_q.weight"):
        if tensor not in file.tensors:
            raise ModelRefused(f"{file.name}: tensor {tensor} is missing.")
    hidden, heads = need("embedding_length"), need("attention.head_count")
    head = optional("attention.key_length", hidden // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if optional(key, head) != head:
            raise ModelRefused(
                f"{file.name} has a {family}.{key} that is not its head's {head} dimensions, "
                "which is not supported."
            )
    if family == "qwen2" and head * heads != hidden:
        raise ModelRefused(f"{file.name} has heads of {head} dimensions, which qwen2 cannot have.")
    return {
        "model_type": family,
        "hidden_size": hidden,
        "num_hidden_layers": need("block_count"),
        "intermediate_size": need("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": optional("attention.head_count_kv", heads),
        "head_dim": head,
        "rms_norm_eps": need("attention.layer_norm_rms_epsilon"),
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "max_position_embeddings": need("context_length"),
        "rope_theta": optional("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(file, family),
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        # A file whose head is the embedding does not hold it twice.
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }


def _rope_scaling(file: GgufFile, family: str) -> dict[str, Any] | None:
    def get(key: str) -> Any:
        return file.metadata.get(f"{family}.rope.{key}")

    kind, factor = get("scaling.type"), get("scaling.factor")
    # Older files have the linear factor alone.
    if kind is None and get("scale_linear") not in (None, 0.0, 1.0):
        kind, factor = "linear", get("scale_linear")
    if kind in (None, "none"):
        return None
    if kind in ("linear", "yarn") and not (isinstance(factor, int | float) and factor > 0):
        raise ModelRefused(f"{file.name} lacks a usable {family}.rope.scaling.factor.")
    if kind == "linear":
        return {"type": "linear", "factor": factor}
    if kind == "yarn" and get("scaling.attn_factor") in (None, 0.0, 1.0):
        named = {
            "original_max_position_embeddings": get("scaling.original_context_length"),
            "beta_fast": get("scaling.yarn_beta_fast"),
            "beta_slow": get("scaling.yarn_beta_slow"),
        }
        if named["original_max_position_embeddings"] is None:
            raise ModelRefused(f"{file.name} lacks {family}.rope.scaling.original_context_length.")
        given = {key: value for key, value in named.items() if value is not None}
        return {"type": "yarn", "factor": factor, **given}
    raise ModelRefused(f"{file.name} scales its rotary embedding by {kind!r}, which is not supported.")


def _set_rope_factors(model: nn.Module, file: GgufFile, settings: Mapping[str, Any]) -> None:
    """Apply Llama 3's stretched wavelengths, which the file holds as one factor per pair."""
    if _ROPE_FACTORS not in file.tensors:
        return
    head = settings["head_dim"]
    factors = file.read(_ROPE_FACTORS)
    if settings["rope_scaling"] is not None:
        raise ModelRefused(f"{file.name} has both {_ROPE_FACTORS} and another rotary scaling.")
    if factors.shape != (head // 2,):
        raise ModelRefused(
            f"{file.name}: tensor {_ROPE_FACTORS} has the shape {factors.shape} instead of {(head // 2,)}."
        )
    rope = Llama3RoPE(head, base=settings["rope_theta"], scaling_config={"factor": 1.0})
    wavelengths = settings["rope_theta"] ** (mx.arange(0, head, 2, dtype=mx.float32) / head)
    rope._freqs = wavelengths * mx.array(factors)
    mx.eval(rope._freqs)
    for layer in model.layers:
        layer.self_attn.rope = rope


def _fill(model: nn.Module, file: GgufFile, settings: Mapping[str, Any]) -> None:
    """Put the file's tensors in place; every one must have its place and its shape."""
    # On a CPU half precision is slow; elsewhere float16 halves the memory. (Only CPUs were tried.)
    dtype = mx.float32 if mx.default_device() == mx.cpu else mx.float16
    wanted = dict(tree_flatten(model.parameters()))
    names = {parameter: _file_name(parameter) for parameter in wanted}
    missing = [name for name in names.values() if name not in file.tensors]
    if missing:
        raise ModelRefused(f"{file.name}: tensor {missing[0]} is missing{_more(missing)}.")
    unexpected = sorted(set(file.tensors) - set(names.values()) - {_ROPE_FACTORS})
    if unexpected:
        raise ModelRefused(
            f"{file.name}: tensor {unexpected[0]} has no place in a {settings['model_type']} "
            f"model{_more(unexpected)}."
        )
    for parameter, name in names.items():
        if wanted[parameter].shape != file.tensors[name].shape:
            raise ModelRefused(
                f"{file.name}: tensor {name} has the shape {file.tensors[name].shape} instead of "
                f"{wanted[parameter].shape}."
            )
    del wanted
    for parameter, name in names.items():
        values = _order(parameter, settings)(file.read(name))
        array = mx.array(values, dtype=dtype)
        # Now, so that the NumPy copy is gone before the next tensor comes.
        mx.eval(array)
        model.load_weights([(parameter, array)], strict=False)


def _file_name(parameter: str) -> str:
    inside = _IN_LAYER.fullmatch(parameter)
    if inside:
        layer, module, kind = inside.groups()
        return f"blk.{layer}.{_LAYER.get(module, module)}.{kind}"
    module, _, kind = parameter.rpartition(".")
    return f"{_OUTER.get(module, module)}.{kind}"


def _order(
    parameter: str, settings: Mapping[str, Any]
) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """What puts the rows of a tensor in Hugging Face's order.

    llama's converter interleaves the two halves of each query and key head, as llama.cpp's rotary
    embedding wants them; the other architectures' keeps them.
    """
    heads = {
        "q_proj": settings["num_attention_heads"],
        "k_proj": settings["num_key_value_heads"],
    }.get(parameter.split(".")[-2])
    if settings["model_type"] != "llama" or heads is None:
        return lambda values: values

    def undo(values: NDArray[np.float32]) -> NDArray[np.float32]:
        pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, -1)
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)

    return undo


def _quantization(file: GgufFile) -> str:
    """The type of the largest share of the layers' weights."""
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        if tensor.name.startswith("blk."):
            sizes[tensor.type.name] += tensor.size
    return sizes.most_common(1)[0][0]


def _more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
