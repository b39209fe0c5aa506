// Vercel's AI SDK with its OpenAI provider, against the gateway whose base URL is the argument.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, experimental_decide as decide } from "ai";

const openai = createOpenAI({ apiKey: "k", baseURL: process.argv[2] + "/v1" });
const predicate = { type: "boolean", instructions: "?" };

const { answers } = await decide({
  model: openai.decisionModel("m"),
  state: { t: "x" },
  questions: {
    p: predicate,
    c: { type: "choice", instructions: "?", criteria: { a: "A", b: "B" } },
    s: { type: "score", instructions: "?", criteria: ["lo", "hi"] },
  },
});
assert.equal(answers.p.probability, 0.5);
assert.equal(answers.c.choice, "a");
assert.deepEqual(answers.c.probabilities, { a: 0.5, b: 0.5 });
assert.equal(answers.s.score, 0.5);
assert.deepEqual(answers.s.probabilities, { 0: 0.5, 1: 0.5 });

await assert.rejects(
  decide({ model: openai.decisionModel("missing"), state: "x", questions: { p: predicate } }),
  (refused) => APICallError.isInstance(refused) && refused.statusCode === 404 && /no model/.test(refused.message),
);

console.log("ok");
