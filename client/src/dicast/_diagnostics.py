"""How an answer was read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PassScores:
    """The raw scores of one pass: `scores[i]` belongs to the option of index `options[i]`.

    Attributes:
        options: indices of the options in the order in which the pass listed them.
        scores: in the same order.
        candidate_token_ids: the tokens that were scored, in the same order.
        prior: whether the pass read the question after a state without content.
    """

    options: tuple[int, ...]
    scores: tuple[float, ...]
    candidate_token_ids: tuple[tuple[int, ...], ...] = ()
    prior: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """How an answer was read; sent where `Options.detail` asks for it.

    Attributes:
        readout: by name.
        profile: prompt style and published constants of the model.
        prompt_version: changes whenever the text of a prompt does.
        option_mass: share of the model's probability on the listed labels, in [0, 1].
        temperature: that was applied.
        temperature_source: where it came from.
        forwards: of the model that the question took part in, the shared prefix apart.
        passes: prompts that were read.
        orders: that were averaged.
        order_spread: largest difference between two orders' probabilities of one option.
        truncated_tokens: always 0: a prompt that does not fit is refused.
        head_path: how the labels' scores were computed: "rows" or "logits".
        prompt_hash: SHA-256 in hexadecimal of the token ids of all passes.
        scores: raw scores by pass; only with detail "full".
        score_kind: what they are: "candidate_logit", "sequence_log_probability_including_eos" or
            "pooled_score".
        prior_corrected: whether the scores after a state without content were subtracted.
        length_normalized: whether candidates' scores were divided by their numbers of tokens.
        entropy: of the answer's probabilities, in nats.
        margin: the largest probability less the second largest.
        concentration: max(0, 1 - entropy / ln n), in [0, 1].
        confidence_formula: the name of the confidence's formula; empty where the type has none.
        state_hash: SHA-256 in hexadecimal of the state as it was sent.
        tokens: of all passes, the shared prefix in each.
        offset: that was added to a predicate's logit, as it was fitted. Else 0.
    """

    readout: str
    profile: str
    prompt_version: str
    option_mass: float
    temperature: float
    temperature_source: str
    forwards: int
    passes: int
    orders: int
    order_spread: float
    truncated_tokens: int
    head_path: str
    prompt_hash: str
    scores: tuple[PassScores, ...]
    score_kind: str = ""
    prior_corrected: bool = False
    length_normalized: bool = False
    entropy: float = 0.0
    margin: float = 0.0
    concentration: float = 0.0
    confidence_formula: str = ""
    state_hash: str = ""
    tokens: int = 0
    offset: float = 0.0
