"""Schemas of what is told beside an answer: how it was read, and why there is none."""

from __future__ import annotations

from dicast_gateway.openapi.schemas import COUNT, NUMBER, TEXT, Schema, closed, list_of, ref


def _refusal(*answers: str) -> Schema:
    return closed(
        "Why a question was refused.",
        {"reason": {**TEXT, "pattern": "^REASON_", "examples": ["REASON_ABSTAINED"]}, "message": TEXT},
        {
            "would_be": {
                "oneOf": [ref(answer) for answer in answers],
                "description": "The answer that was less certain than `abstain` asks for. Of a plugin's "
                "question it is that of the type that it is read as.",
            }
        },
    )


DETAILS: dict[str, Schema] = {
    "AnswerDetail": closed(
        "How an answer was read. There with a `detail` of basic or full.",
        {"diagnostics": ref("Diagnostics")},
    ),
    "RefusalDetail": closed(
        "Why there is no answer. There where a question was skipped or its answer was less certain than "
        "`abstain` asks for, and with a `detail` of basic or full.",
        {},
        {"diagnostics": ref("Diagnostics"), "refused": ref("Refusal"), "skipped": ref("Skip")},
    ),
    "Skip": closed(
        "Why a question was not asked.",
        {
            "because": {
                "type": ["string", "integer"],
                "description": "The question that decided it: its id, its name or else its place.",
            },
            "was": {
                "type": ["boolean", "string", "integer", "null"],
                "description": "Its answer; null where it was itself skipped or refused.",
            },
        },
    ),
    "SystemOneRefusal": _refusal("NoulAnswer", "SystemOneChoiceAnswer", "ScoreAnswer"),
    "Refusal": _refusal("PredicateAnswer", "DecisionsChoiceAnswer", "DecisionsScoreAnswer"),
    "Diagnostics": closed(
        "How an answer was read.",
        {
            "readout": {**TEXT, "description": 'By its name, for example "letters".'},
            "profile": {**TEXT, "description": "Prompt style and published constants of the model."},
            "prompt_version": {**TEXT, "description": "Changes whenever the text of a prompt does."},
            "option_mass": {**NUMBER, "description": "Share of all probability on the options."},
            "temperature": {**NUMBER, "description": "The one that was applied."},
            "temperature_source": {**TEXT, "description": "Where it came from."},
            "forwards": {**COUNT, "description": "Of the model, those of the shared prefix apart."},
            "passes": {**COUNT, "description": "Prompts that were read for the question."},
            "orders": {**COUNT, "description": "Orders of the options that were averaged."},
            "order_spread": {**NUMBER, "description": "Largest difference between two orders."},
            "truncated_tokens": {**COUNT, "description": "Always 0: nothing is cut."},
            "head_path": {**TEXT, "description": "How the scores were computed."},
            "prompt_hash": {**TEXT, "description": "SHA-256 of the token ids of all passes."},
            "scores": {
                **list_of(
                    closed(
                        "The raw scores of one pass.",
                        {
                            "options": list_of(COUNT),
                            "scores": list_of({"type": ["number", "null"]}),
                            "candidate_token_ids": list_of(
                                closed("The tokens of one option.", {"ids": list_of(COUNT)})
                            ),
                            "prior": {
                                "type": "boolean",
                                "description": "Whether the state was one without content.",
                            },
                        },
                    )
                ),
                "description": "With a `detail` of full; else empty.",
            },
            "score_kind": {**TEXT, "description": "What the scores are: of one token, or of all tokens."},
            "prior_corrected": {
                "type": "boolean",
                "description": "Whether the scores after a state without content were subtracted.",
            },
            "length_normalized": {
                "type": "boolean",
                "description": "Whether scores were divided by their numbers of tokens.",
            },
            "entropy": {**NUMBER, "description": "Of the answer's probabilities, in nats."},
            "margin": {**NUMBER, "description": "The largest probability less the second largest."},
            "concentration": {**NUMBER, "description": "max(0, 1 - entropy / ln n)."},
            "confidence_formula": {**TEXT, "description": "By its name; empty where there is none."},
            "state_hash": {**TEXT, "description": "SHA-256 of the state as the server got it."},
            "tokens": {**COUNT, "description": "Of all passes, the shared prefix in each."},
            "offset": {**NUMBER, "description": "Added to a predicate's logit, as it was fitted; else 0."},
        },
    ),
}
