// OpenAI's SDK for JavaScript, against the gateway whose base URL is the argument.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "k", baseURL: process.argv[2] + "/v1", maxRetries: 0 });
const predicate = { type: "predicate", name: "p", instructions: "?" };

const reply = await client.decisions.create({
  model: "m",
  input: "x",
  questions: [
    predicate,
    { type: "choice", name: "c", instructions: "?", choices: [{ value: "true" }, { value: true }] },
    { type: "score", name: "s", instructions: "?", levels: [{ label: "lo" }, { label: "hi" }] },
  ],
});
const [p, c, s] = reply.answers;
assert.equal(p.probability, 0.5);
assert.equal(c.choice, "true");
assert.deepEqual(c.probabilities.map((option) => [option.value, option.probability]), [["true", 0.5], [true, 0.5]]);
assert.equal(s.score, 0.5);
assert.deepEqual(s.probabilities.map((level) => [level.label, level.probability]), [["lo", 0.5], ["hi", 0.5]]);

await assert.rejects(
  client.decisions.create({ model: "missing", input: "x", questions: [predicate] }),
  (refused) => refused instanceof OpenAI.NotFoundError && refused.code === "model_not_found",
);

console.log("ok");
