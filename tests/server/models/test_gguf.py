"""GGUF: the same numbers as the weights put straight into mlx-lm, and refusals that name names."""

import json
import struct
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from gguf import GGMLQuantizationType as Type
from gguf import quants
from numpy.typing import NDArray

from dicast_server.models import ModelRefused
from dicast_server.models import gguf as gguf_models
from dicast_server.models.gguf_file import GgufFile

# More rows than tokens, as Qwen has.
VOCABULARY = 264
IDS = [72, 101, 108, 108, 111, 257, 3, 200, 17, 5]
FAMILIES = ["llama", "qwen2", "qwen3"]


def write(path: Path, family: str, *, tied: bool = True, **more: Any) -> tuple[Path, Any]:
    settings = tiny_models.config(family, VOCABULARY, tied=tied)
    made = tiny_models.model(settings)
    tensors = tiny_models.gguf_tensors(made, settings)
    return tiny_models.write_gguf(path / "tiny.gguf", settings, tensors, **more), made


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_the_same_weights_in_mlx_lm(tmp_path: Path, family: str, tied: bool) -> None:
    path, made = write(tmp_path, family, tied=tied)
    loaded = gguf_models.load(path)
    assert (loaded.family, loaded.context, loaded.quantization) == (family, 512, "F32")
    np.testing.assert_allclose(
        tiny_models.logits(loaded.model, IDS), tiny_models.logits(made, IDS), atol=1e-5
    )


def test_llama_biases_are_put_in_order_too(tmp_path: Path) -> None:
    settings = tiny_models.config("llama", VOCABULARY, attention_bias=True)
    made = tiny_models.model(settings)
    tensors = tiny_models.gguf_tensors(made, settings)
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", settings, tensors)
    np.testing.assert_allclose(
        tiny_models.logits(gguf_models.load(path).model, IDS),
        tiny_models.logits(made, IDS),
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_1])
def test_quantised_weights_are_what_the_reference_makes_of_them(tmp_path: Path, kind: Type) -> None:
    settings = tiny_models.config("qwen3", VOCABULARY)
    tensors = tiny_models.gguf_tensors(tiny_models.model(settings), settings)
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", settings, tensors, quantization=kind)
    loaded = gguf_models.load(path)
    name = "blk.1.ffn_down.weight"
    expected = quants.dequantize(quants.quantize(tensors[name], kind), kind)
    weight = loaded.model.layers[1].mlp.down_proj.weight
    assert weight.dtype == mx.float32
    np.testing.assert_array_equal(np.array(weight), expected)
    assert loaded.quantization == kind.name


def test_llama3_wavelengths_come_from_the_file(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    settings = tiny_models.config("llama", VOCABULARY, rope_scaling=scaling)
    made = tiny_models.model(settings)
    tensors = tiny_models.gguf_tensors(made, settings)
    plain = 10000.0 ** (np.arange(0, 16, 2) / 16)
    factors = np.array(made.layers[0].self_attn.rope._freqs) / plain
    tensors["rope_freqs.weight"] = factors.astype(np.float32)
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", settings, tensors)
    ids = IDS * 20
    got = tiny_models.logits(gguf_models.load(path).model, ids)
    np.testing.assert_allclose(got, tiny_models.logits(made, ids), atol=2e-4)
    unscaled = tiny_models.model({**settings, "rope_scaling": None})
    assert np.abs(got - tiny_models.logits(unscaled, ids)).max() > 0.01


@pytest.mark.parametrize(
    ("metadata", "scaling"),
    [
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            {"type": "linear", "factor": 4.0},
        ),
        (
            {
                "llama.rope.scaling.type": "yarn",
                "llama.rope.scaling.factor": 4.0,
                "llama.rope.scaling.original_context_length": 128,
            },
            {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
        ),
    ],
)
def test_rotary_scaling(tmp_path: Path, metadata: dict[str, Any], scaling: dict[str, Any]) -> None:
    settings = tiny_models.config("llama", VOCABULARY, rope_scaling=scaling)
    made = tiny_models.model(settings)
    tensors = tiny_models.gguf_tensors(made, settings)
    path = tiny_models.write_gguf(tmp_path / "a.gguf", settings, tensors, metadata=metadata)
    ids = IDS * 20
    np.testing.assert_allclose(
        tiny_models.logits(gguf_models.load(path).model, ids),
        tiny_models.logits(made, ids),
        atol=2e-4,
    )


@pytest.mark.parametrize(
    ("family", "metadata", "says"),
    [
        ("llama", {"general.architecture": "mamba"}, "architecture 'mamba'"),
        ("llama", {"tokenizer.ggml.model": "llama"}, "kind 'llama'"),
        ("llama", {"tokenizer.ggml.pre": "tekken"}, "pre-tokenizer 'tekken'"),
        ("llama", {"llama.rope.scaling.type": "longrope"}, "'longrope'"),
        ("llama", {"llama.rope.dimension_count": 8}, "llama.rope.dimension_count"),
        ("llama", {"llama.context_length": None}, "llama.context_length"),
        ("llama", {"llama.logit_scale": 0.5}, "llama.logit_scale"),
        ("qwen2", {"qwen2.attention.key_length": 32}, "heads of 32"),
        ("llama", {"llama.block_count": 3}, "tensor blk.2."),
        ("llama", {"llama.block_count": 1}, "tensor blk.1."),
        ("llama", {"llama.feed_forward_length": 64}, "the shape (96, 64) instead of (64, 64)"),
    ],
)
def test_refused_by_name(tmp_path: Path, family: str, metadata: dict[str, Any], says: str) -> None:
    path, _ = write(tmp_path, family, metadata=metadata)
    with pytest.raises(ModelRefused) as refused:
        gguf_models.load(path)
    assert says in str(refused.value)
    assert "tiny.gguf" in str(refused.value)
    assert str(tmp_path) not in str(refused.value)


def test_refuses_a_tensor_that_has_no_place(tmp_path: Path) -> None:
    settings = tiny_models.config("llama", VOCABULARY)
    tensors = tiny_models.gguf_tensors(tiny_models.model(settings), settings)
    tensors["blk.0.ffn_gate_inp.weight"] = np.zeros((4, 64), np.float32)
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", settings, tensors)
    with pytest.raises(ModelRefused, match=r"tensor blk\.0\.ffn_gate_inp\.weight has no place"):
        gguf_models.load(path)


@pytest.mark.parametrize("kept", [0, 3, 20, 500, 5_000, -1])
def test_refuses_a_file_that_is_cut_short(tmp_path: Path, kept: int) -> None:
    path, _ = write(tmp_path, "llama")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelRefused, match=r"tiny\.gguf"):
        gguf_models.load(path)


def test_refuses_what_is_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGML" + bytes(100))
    with pytest.raises(ModelRefused, match="is not a GGUF file"):
        gguf_models.load(path)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60) + bytes(100))
    with pytest.raises(ModelRefused, match=r"tiny\.gguf"):
        gguf_models.load(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reader_agrees_with_the_gguf_package(tmp_path: Path, family: str) -> None:
    path, _ = write(tmp_path, family)
    ours, theirs = GgufFile(path), gguf.GGUFReader(path)
    assert {name: tensor.start for name, tensor in ours.tensors.items()} == {
        tensor.name: tensor.data_offset for tensor in theirs.tensors
    }
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            assert ours.metadata[key] == field.contents()


class TestTokenizer:
    def test_special_and_user_defined_tokens(self, tmp_path: Path) -> None:
        path, _ = write(tmp_path, "qwen3", tokenizer=tiny_models.qwen_like())
        tokenizer = gguf_models.load(path).tokenizer
        assert tokenizer.get_vocab() == tiny_models.qwen_like().get_vocab()
        assert tokenizer.chat_template == tiny_models.QWEN
        text = "<think>a\n\nb<|im_end|>"
        expected = tiny_models.qwen_like().encode(text)
        assert tokenizer.encode(text) == expected
        assert tokenizer.decode(expected, skip_special_tokens=True) == "<think>a\n\nb"

    @pytest.mark.parametrize(
        ("pre", "given", "begins"),
        [
            ("gpt-2", {}, False),
            ("gpt-2", {"tokenizer.ggml.add_bos_token": True}, True),
            ("llama-bpe", {}, True),
            ("llama-bpe", {"tokenizer.ggml.add_bos_token": False}, False),
        ],
    )
    def test_bos(self, tmp_path: Path, pre: str, given: dict[str, Any], begins: bool) -> None:
        bos = len(tiny_models.chatml()) - 3
        keys = {"tokenizer.ggml.pre": pre, "tokenizer.ggml.bos_token_id": bos, **given}
        path, _ = write(tmp_path, "llama", metadata=keys)
        tokenizer = gguf_models.load(path).tokenizer
        assert (tokenizer.encode("x")[0] == bos) is begins

    @pytest.mark.parametrize(
        ("pre", "words"),
        [
            ("smollm", ["x", " ", "1", "2", "3", "4", "!?", "Ċ", "Ċ", "y", "'ll"]),
            ("gpt-2", ["x", " 1234", "!?", "Ċ", "Ċ", "y", "'ll"]),
            ("qwen2", ["x", " ", "1", "2", "3", "4", "!?ĊĊ", "y", "'ll"]),
            ("llama-bpe", ["x", " ", "123", "4", "!?ĊĊ", "y", "'ll"]),
            ("default", ["x", " ", "123", "4", "!?", "Ċ", "Ċ", "y", "'", "ll"]),
        ],
    )
    def test_words_are_cut_as_the_family_cuts_them(self, tmp_path: Path, pre: str, words: list[str]) -> None:
        path, _ = write(tmp_path, "llama", metadata={"tokenizer.ggml.pre": pre})
        backend = gguf_models.load(path).tokenizer.backend_tokenizer
        cut = backend.pre_tokenizer.pre_tokenize_str("x 1234!?\n\ny'll")
        assert [word.replace("Ġ", " ") for word, _ in cut] == words


@pytest.fixture(scope="module")
def loaded(smollm2_path: Path) -> gguf_models.GgufModel:
    return gguf_models.load(smollm2_path)


@pytest.fixture(scope="module")
def recorded() -> Any:
    path = Path(__file__).parents[2] / "fixtures" / "smollm2.json"
    return json.loads(path.read_text())


class TestSmolLM2:
    """The default model against llama.cpp's tokens and scores, and against plain arithmetic."""

    def test_what_it_is(self, loaded: gguf_models.GgufModel) -> None:
        assert (loaded.name, loaded.family, loaded.context) == ("smollm2", "llama", 8192)
        assert loaded.quantization == "Q4_1"

    def test_scores(self, loaded: gguf_models.GgufModel, recorded: Any) -> None:
        letters = [loaded.tokenizer.convert_tokens_to_ids(letter) for letter in "ABCDEFGH"]
        for prompt in recorded["prompts"]:
            scores = _last_log_probabilities(loaded, prompt["ids"])
            expected = dict(zip(letters, prompt["letters_A_to_H_logprob"], strict=True))
            expected |= dict(prompt["top8"])
            # That run was not in float32 throughout: llama.cpp's float32 run is as far from it as ours.
            for id_, score in expected.items():
                assert scores[id_] == pytest.approx(score, abs=8e-3)

    def test_scores_equal_an_independent_float32_run(
        self, loaded: gguf_models.GgufModel, recorded: Any
    ) -> None:
        path = Path(__file__).parents[2] / "fixtures" / "smollm2_float32.json"
        for prompt, likeliest in zip(
            recorded["prompts"], json.loads(path.read_text())["prompts"], strict=True
        ):
            scores = _last_log_probabilities(loaded, prompt["ids"])
            for id_, score in likeliest:
                assert scores[id_] == pytest.approx(score, abs=2e-3)

    def test_scores_equal_plain_float64_arithmetic(
        self, loaded: gguf_models.GgufModel, recorded: Any
    ) -> None:
        ids = recorded["prompts"][4]["ids"]
        np.testing.assert_allclose(
            _last_log_probabilities(loaded, ids), _llama_in_float64(loaded, ids), atol=1e-3
        )


def _last_log_probabilities(loaded: gguf_models.GgufModel, ids: list[int]) -> NDArray[np.float64]:
    return _log_softmax(tiny_models.logits(loaded.model, ids)[-1].astype(np.float64))


def _log_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = scores - scores.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _llama_in_float64(loaded: gguf_models.GgufModel, ids: list[int]) -> NDArray[np.float64]:
    """SmolLM2's whole arithmetic, written out in NumPy: 9 heads of 64 over 3, 30 layers."""
    length = len(ids)
    angles = np.arange(length)[:, None] * 100000.0 ** (-np.arange(0, 64, 2) / 64)
    cosine, sine = np.cos(angles), np.sin(angles)
    future = np.triu(np.full((length, length), -np.inf), 1)

    def weight(of: Any) -> NDArray[np.float64]:
        return np.array(of.weight, dtype=np.float64)

    def norm(x: NDArray[np.float64], of: Any) -> NDArray[np.float64]:
        return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight(of))

    def heads(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x.reshape(length, -1, 64).transpose(1, 0, 2)

    def turn(x: NDArray[np.float64]) -> NDArray[np.float64]:
        left, right = x[..., :32], x[..., 32:]
        turned = [left * cosine - right * sine, left * sine + right * cosine]
        return np.concatenate(turned, axis=-1)

    x = weight(loaded.model.model.embed_tokens)[ids]
    for layer in loaded.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        h = norm(x, layer.input_layernorm)
        queries = turn(heads(h @ weight(attention.q_proj).T))
        keys = np.repeat(turn(heads(h @ weight(attention.k_proj).T)), 3, axis=0)
        values = np.repeat(heads(h @ weight(attention.v_proj).T), 3, axis=0)
        scores = queries @ keys.transpose(0, 2, 1) / 8 + future
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ values
        x = x + mixed.transpose(1, 0, 2).reshape(length, -1) @ weight(attention.o_proj).T
        h = norm(x, layer.post_attention_layernorm)
        gate = h @ weight(mlp.gate_proj).T
        up = h @ weight(mlp.up_proj).T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weight(mlp.down_proj).T
    last = norm(x[-1], loaded.model.model.norm)
    return _log_softmax(last @ weight(loaded.model.model.embed_tokens).T)
