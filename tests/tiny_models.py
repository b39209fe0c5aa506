"""Tiny tokenizers and models with random weights, built without any download."""

import importlib
import json
from pathlib import Path
from string import ascii_letters
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
from gguf import quants
from mlx import nn
from mlx.utils import tree_flatten
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import dicast_server.models  # noqa: F401 - loads the BLAS before mlx is imported

# As the server does on a CPU: where there is a compiler it would compile for seconds.
mx.disable_compile()

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Qwen's: an empty reasoning block where thinking is off.
QWEN = CHATML.replace(
    "assistant\n{% endif %}",
    "assistant\n{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}",
)
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHATML_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NEWLINES = (("Ċ", "Ċ"),)


def byte_bpe(
    special: tuple[str, ...],
    merges: tuple[tuple[str, str], ...] = NEWLINES,
    plain: tuple[str, ...] = (),
) -> Tokenizer:
    """A byte-level BPE: 256 bytes, the merges, the special tokens, then added ones that are not."""
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    backend = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=list(merges)))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens([AddedToken(each, special=True, normalized=False) for each in special])
    backend.add_tokens([AddedToken(each, special=False, normalized=False) for each in plain])
    return backend


def fast(backend: Tokenizer, template: str | None, **tokens: str) -> PreTrainedTokenizerFast:
    """The tokenizer in transformers' clothes."""
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template, **tokens)


def chatml(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    """A tokenizer like SmolLM2's: it has no BOS of its own."""
    return fast(byte_bpe(CHATML_TOKENS), template, eos_token="<|im_end|>")


def qwen_like(template: str = QWEN) -> PreTrainedTokenizerFast:
    """A tokenizer like Qwen's: the marks of its reasoning are added tokens, but not special."""
    backend = byte_bpe(CHATML_TOKENS, plain=("<think>", "</think>"))
    return fast(backend, template, eos_token="<|im_end|>")


def with_bos(template: str) -> PreTrainedTokenizerFast:
    """A tokenizer that puts <s> before every text by itself."""
    backend = byte_bpe(("<s>", "</s>", "[INST]", "[/INST]"))
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
    )
    return fast(backend, template, bos_token="<s>", eos_token="</s>")


def sentencepiece_like(scheme: str, template: str, special: tuple[str, ...]) -> Any:
    """A vocabulary of characters and words that begin with a mark, as SentencePiece has them."""
    characters = [chr(code) for code in range(32, 127)] + ["\n", "▁", "\uff1a"]
    characters += [f"▁{letter}" for letter in ascii_letters]
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *characters]
    backend = Tokenizer(
        models.BPE(
            vocab={word: id_ for id_, word in enumerate(words)},
            merges=[("▁", letter) for letter in ascii_letters],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    backend.add_tokens([AddedToken(each, special=True, normalized=False) for each in special])
    return fast(backend, template, unk_token="<unk>")


def config(family: str, vocabulary: int, *, tied: bool = True, **more: Any) -> dict[str, Any]:
    """The configuration of a tiny model: 2 layers, 64 wide, 4 heads over 2."""
    return {
        "model_type": family,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "tie_word_embeddings": tied,
        **more,
    }


FAMILIES: dict[str, dict[str, Any]] = {
    # Plain attention, with and without biases and norms of its own.
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    # A mixture of experts.
    "qwen3_moe": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    },
    # Windows of 16 tokens in one layer of two.
    "gemma3_text": {
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 16,
        "rope_local_base_freq": 10000.0,
    },
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_theta": 10000,
        "rope_scaling": {"rope_type": "default"},
    },
    # A recurrent layer and an attention layer.
    "qwen3_5": {
        "full_attention_interval": 2,
        "linear_num_value_heads": 2,
        "linear_num_key_heads": 1,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "rope_parameters": {
            "type": "default",
            "mrope_section": [1, 1, 0],
            "rope_theta": 100000,
            "partial_rotary_factor": 0.25,
        },
    },
    # Recurrent alone.
    "mamba2": {
        "num_heads": 4,
        "head_dim": 32,
        "hidden_size": 64,
        "state_size": 16,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_limit": (0.0, 100.0),
        "time_step_rank": "auto",
        "intermediate_size": 128,
        "layer_norm_epsilon": 1e-5,
    },
}
"""What each family of mlx-lm needs in a tiny configuration, besides `config`."""


def family(name: str, vocabulary: int = 128, **more: Any) -> nn.Module:
    """A tiny random model of a family."""
    return model(config(name, vocabulary, **{**FAMILIES[name], **more}))


def model(settings: dict[str, Any], seed: int = 0) -> nn.Module:
    """mlx-lm's model with random weights, norms and biases too, evaluated."""
    module = importlib.import_module(f"mlx_lm.models.{settings['model_type']}")
    made = module.Model(module.ModelArgs.from_dict(settings))
    keys = iter(mx.random.split(mx.random.key(seed), 200))
    made.load_weights(
        [
            (name, 0.3 * mx.random.normal(value.shape, key=next(keys)) + ("norm" in name))
            for name, value in tree_flatten(made.parameters())
        ]
    )
    mx.eval(made.parameters())
    return made


def logits(of: nn.Module, ids: list[int]) -> NDArray[np.float32]:
    """All logits of one sequence: tokens by vocabulary, float32."""
    return np.array(of(mx.array([ids]))[0].astype(mx.float32))


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
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


def gguf_tensors(of: nn.Module, settings: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """The model's weights under GGUF's names and in its order."""
    heads = {
        "attn_q": settings["num_attention_heads"],
        "attn_k": settings["num_key_value_heads"],
    }
    tensors = {}
    for name, value in tree_flatten(of.parameters()):
        values = np.array(value, dtype=np.float32)
        module, _, kind = name.rpartition(".")
        layer = ""
        if module.startswith("model.layers."):
            _, _, number, module = module.split(".", 3)
            layer = f"blk.{number}."
        short = _GGUF_NAMES[module]
        if settings["model_type"] == "llama" and short in heads:
            # What llama.cpp's converter does: the halves of a head become neighbours.
            halves = values.reshape(heads[short], 2, -1, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        tensors[f"{layer}{short}.{kind}"] = np.ascontiguousarray(values)
    return tensors


def write_gguf(
    path: Path,
    settings: dict[str, Any],
    tensors: dict[str, NDArray[np.float32]],
    *,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    metadata: dict[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> Path:
    """Write a GGUF file; matrices are quantised, vectors stay float32.

    Args:
        path: the file to write.
        settings: the model's configuration, as `config` makes it.
        tensors: as `gguf_tensors` gives them.
        quantization: of the matrices.
        metadata: more keys, which win; a value of None removes the key.
        tokenizer: a byte-level BPE, by default the one of `chatml`.
    """
    family = settings["model_type"]
    fast_tokenizer = tokenizer or chatml()
    described = json.loads(fast_tokenizer.backend_tokenizer.to_str())
    words = sorted(fast_tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {each["content"]: 3 if each["special"] else 4 for each in described["added_tokens"]}
    keys: dict[str, Any] = {
        "general.name": "Tiny Test",
        f"{family}.context_length": settings["max_position_embeddings"],
        f"{family}.embedding_length": settings["hidden_size"],
        f"{family}.block_count": settings["num_hidden_layers"],
        f"{family}.feed_forward_length": settings["intermediate_size"],
        f"{family}.attention.head_count": settings["num_attention_heads"],
        f"{family}.attention.head_count_kv": settings["num_key_value_heads"],
        f"{family}.attention.key_length": settings["head_dim"],
        f"{family}.attention.layer_norm_rms_epsilon": settings["rms_norm_eps"],
        f"{family}.rope.freq_base": settings["rope_theta"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": [word for word, _ in words],
        "tokenizer.ggml.token_type": [special.get(word, 1) for word, _ in words],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in described["model"]["merges"]],
        "tokenizer.ggml.eos_token_id": fast_tokenizer.eos_token_id,
        "tokenizer.chat_template": fast_tokenizer.chat_template,
        **(metadata or {}),
    }
    writer = gguf.GGUFWriter(path, keys.pop("general.architecture", family))
    for key, value in keys.items():
        _add(writer, key, value)
    for name, values in tensors.items():
        kind = quantization if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)


def write_folder(
    folder: Path,
    settings: dict[str, Any],
    weights: dict[str, mx.array],
    tokenizer: PreTrainedTokenizerFast,
) -> Path:
    """Write a model as mlx-lm and the Hugging Face Hub keep it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    tokenizer.save_pretrained(folder)
    return folder


def llama_folder(folder: Path, seed: int = 0) -> Path:
    """Write a tiny random llama with a chat template."""
    settings = config("llama", 272)
    weights = dict(tree_flatten(model(settings, seed).parameters()))
    return write_folder(folder, settings, weights, qwen_like())
