// TypeSafe's SDK for JavaScript, against the gateway whose base URL is the argument.
import assert from "node:assert/strict";
import { APIError, TypeSafeClient, choice, noul, score } from "@typesafe-ai/sdk";

const client = new TypeSafeClient({ apiKey: "k", baseURL: process.argv[2] });

const questions = { n: noul("?"), c: choice("?", { a: null, b: "B" }), s: score("?", ["lo", "hi"]) };
const { data, requestId } = await client.systemOne({ state: { t: "x" }, questions }).withResponse();
assert.equal(data.answers.n.noul, 0.5);
assert.equal(data.answers.c.choice, "a");
assert.deepEqual(data.answers.c.probabilities, { a: 0.5, b: 0.5 });
assert.equal(data.answers.s.score, 0.5);
assert.deepEqual(data.answers.s.probabilities, { 0: 0.5, 1: 0.5 });
assert.deepEqual(data.answers.s.legend, { 0: "lo", 1: "hi" });
assert.ok(requestId);

await assert.rejects(
  client.systemOne({ model: "missing", state: "x", questions: { n: noul("?") } }),
  (refused) => refused instanceof APIError && refused.status === 400 && /no model/.test(refused.message),
);

console.log("ok");
