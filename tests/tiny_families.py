"""Offline tokenizers with the chat templates of the families that are served, each as odd as its model's."""

from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters
from typing import Any

import tiny_models
from tokenizers import processors

LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{% if m.role == 'system' %}Today Date: {{ date_string }}\n\n{% endif %}{{ m.content | trim }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
LLAMA2 = (
    "{% set system = '' %}{% if messages[0].role == 'system' %}"
    "{% set system = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}"
    "{% set messages = messages[1:] %}{% endif %}"
    "{% for m in messages %}{% if m.role == 'user' %}"
    "{{ bos_token }}[INST] {{ system if loop.first else '' }}{{ m.content }} [/INST]"
    "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% elif m.role == 'assistant' %}{{ m.content }}{{ eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
MAGISTRAL = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]"
    "{% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
GPT_OSS = (
    "<|start|>system<|message|>Knowledge cutoff: 2024-06\n\nReasoning: medium<|end|>"
    "{% for m in messages %}"
    "{% if m.role == 'system' %}<|start|>developer<|message|># Instructions\n\n{{ m.content }}<|end|>"
    "{% elif m.role == 'user' %}<|start|>user<|message|>{{ m.content }}<|end|>"
    "{% else %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|return|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
GLM = (
    "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n<think>{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ m.content }}"
    "{% elif m.role == 'user' %}<|User|>{{ m.content }}"
    "{% else %}<|Assistant|>{{ m.content }}<|end_of_text|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
)


def bytes_like(template: str, special: tuple[str, ...], plain: tuple[str, ...] = (), **tokens: str) -> Any:
    """A byte-level BPE with the template's control tokens; it begins texts with its BOS if it has one."""
    backend = tiny_models.byte_bpe(special, plain=plain)
    if (bos := tokens.get("bos_token")) is not None:
        begin_with(backend, bos)
    return tiny_models.fast(backend, template, **tokens)


def words_like(template: str, special: tuple[str, ...], scheme: str, **tokens: str) -> Any:
    """A SentencePiece-like vocabulary with the template's control tokens."""
    tokenizer = tiny_models.sentencepiece_like(scheme, template, special)
    begin_with(tokenizer.backend_tokenizer, tokens["bos_token"])
    return tiny_models.fast(tokenizer.backend_tokenizer, template, unk_token="<unk>", **tokens)


def begin_with(backend: Any, *spellings: str) -> None:
    """Put control tokens before every text that is encoded with them."""
    backend.post_processor = processors.TemplateProcessing(
        single=f"{' '.join(spellings)} $A",
        special_tokens=[(each, backend.token_to_id(each)) for each in spellings],
    )


def glm() -> Any:
    """Two tokens before each text, and a block that is always open."""
    special = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>")
    tokenizer = bytes_like(GLM, special, ("<think>", "</think>"), eos_token="<|endoftext|>")
    begin_with(tokenizer.backend_tokenizer, "[gMASK]", "<sop>")
    return tokenizer


def base_model() -> Any:
    """A tokenizer without a template; it has words that begin with a space."""
    merges = tuple(("Ġ", letter) for letter in ascii_letters)
    return tiny_models.fast(tiny_models.byte_bpe(("<|endoftext|>",), merges), None, eos_token="<|endoftext|>")


@dataclass(frozen=True)
class Family:
    """A tokenizer, and what is to be found in it.

    `label` spells the token of the letter A behind the prompt. `ends` is the prompt's end, in text.
    `begins` are the tokens that come first and once. `closes` is the token that ends a reply.
    """

    build: Callable[[], Any]
    ends: str
    label: str = "A"
    begins: tuple[str, ...] = ()
    closes: str = "<|im_end|>"
    system_in_front: bool = False
    openings: tuple[str, ...] = ()


_INST = ("<s>", "</s>", "[INST]", "[/INST]")
_THINK = ("an empty <think> block",)
_SPACE = ("a space before the answer",)
FAMILIES = {
    "chatml": Family(tiny_models.chatml, "<|im_start|>assistant\n"),
    "qwen, thinking off": Family(tiny_models.qwen_like, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    "qwen, thinking by itself": Family(
        lambda: tiny_models.qwen_like(tiny_models.CHATML), "<|im_start|>assistant\n", openings=_THINK
    ),
    "llama 3": Family(
        lambda: bytes_like(
            LLAMA3,
            (
                "<|begin_of_text|>",
                "<|start_header_id|>",
                "<|end_header_id|>",
                "<|eot_id|>",
                "<|end_of_text|>",
            ),
            bos_token="<|begin_of_text|>",
            eos_token="<|end_of_text|>",
        ),
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        begins=("<|begin_of_text|>",),
        closes="<|eot_id|>",
    ),
    "llama 2": Family(
        lambda: words_like(LLAMA2, ("<s>", "</s>"), "always", bos_token="<s>", eos_token="</s>"),
        " [/INST]",
        begins=("<s>",),
        closes="</s>",
        openings=_SPACE,
    ),
    "mistral": Family(
        lambda: words_like(MISTRAL, _INST, "always", bos_token="<s>", eos_token="</s>"),
        "[/INST]",
        label="▁A",
        begins=("<s>",),
        closes="</s>",
        system_in_front=True,
    ),
    "magistral": Family(
        lambda: bytes_like(
            MAGISTRAL,
            (*_INST, "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[THINK]", "[/THINK]"),
            bos_token="<s>",
            eos_token="</s>",
        ),
        "[/INST]",
        begins=("<s>",),
        closes="</s>",
        openings=("an empty [THINK] block",),
    ),
    "gemma": Family(
        lambda: words_like(
            GEMMA,
            ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
            "never",
            bos_token="<bos>",
            eos_token="<eos>",
        ),
        "<start_of_turn>model\n",
        begins=("<bos>",),
        closes="<end_of_turn>",
        system_in_front=True,
    ),
    "gpt-oss": Family(
        lambda: bytes_like(
            GPT_OSS,
            ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>", "<|endoftext|>"),
            eos_token="<|endoftext|>",
        ),
        "<|start|>assistant<|channel|>final<|message|>",
        closes="<|return|>",
    ),
    "glm": Family(
        glm,
        "<|assistant|>\n<think>\n\n</think>\n\n",
        begins=("[gMASK]", "<sop>"),
        # Its template writes nothing behind a reply.
        closes="<|endoftext|>",
    ),
    "deepseek": Family(
        lambda: bytes_like(
            DEEPSEEK,
            ("<|begin_of_text|>", "<|User|>", "<|Assistant|>", "<|end_of_text|>"),
            ("<think>", "</think>"),
            bos_token="<|begin_of_text|>",
            eos_token="<|end_of_text|>",
        ),
        "<|Assistant|><think>\n\n</think>\n\n",
        begins=("<|begin_of_text|>",),
        closes="<|end_of_text|>",
    ),
    "no template": Family(base_model, "\n\nAnswer:", label="ĠA", closes="<|endoftext|>"),
}
