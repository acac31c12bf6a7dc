// API.md matches the code: every example is valid, every operation, event and error code is documented, and the
// examples that are test vectors have correct hashes.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { entryHash } from "../../../shared/integrity/chain.ts";
import { offerDigest } from "../../../shared/integrity/offer-digest.ts";
import { hashOf } from "../../../shared/integrity/seal.ts";
import {
  acknowledgedAnswerSchema,
  committedAnswerSchema,
  errorAnswerSchema,
  handoffAnswerSchema,
  ownershipAnswerSchema,
  queuedAnswerSchema,
  recoveryAnswerSchema,
  removedAnswerSchema,
  retentionAnswerSchema,
} from "../../../shared/protocol/answers.ts";
import type { Checkpoint } from "../../../shared/protocol/checkpoint.ts";
import { COMMAND_SCHEMAS } from "../../../shared/protocol/commands.ts";
import { ERROR_CODES, ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { signatureAnswerSchema } from "../../../shared/protocol/esign.ts";
import { EVENT_TYPES } from "../../../shared/protocol/events.ts";
import { exitReportSchema } from "../../../shared/protocol/exit-report.ts";
import { eventTypeSchema, queryAnswerSchema } from "../../../shared/protocol/generate/schemas.ts";
import { heartbeatSchema } from "../../../shared/protocol/heartbeat.ts";
import {
  missionAnswerSchema,
  missionCheckpointAnswerSchema,
  resumptionAnswerSchema,
} from "../../../shared/protocol/mission-commands.ts";
import { lockAnswerSchema } from "../../../shared/protocol/mission-locks.ts";
import { mailboxAnswerSchema, messageAnswerSchema } from "../../../shared/protocol/mission-messages.ts";
import { type Offer, offerSchema } from "../../../shared/protocol/offer.ts";
import { COMMAND_OPS, isAnsweredOp, QUERY_OPS, type QueryOp } from "../../../shared/protocol/operations.ts";
import { QUERY_SCHEMAS, type QueryResults } from "../../../shared/protocol/queries.ts";
import { shredAnswerSchema } from "../../../shared/protocol/shred.ts";

const api = readFileSync(new URL("../../../shared/protocol/API.md", import.meta.url), "utf8");

const examples = [...api.matchAll(/^```json ?(\S*)\n([\s\S]*?)^```$/gm)].map(([, tag = "", text = ""]) => ({
  tag,
  value: JSON.parse(text) as unknown,
}));

/** The tag of a query. A query with the name of a command has a prefix. */
function queryTag(op: QueryOp): string {
  return (COMMAND_OPS as readonly string[]).includes(op) ? `query.${op}` : op;
}

const schemas = new Map<string, z.ZodType>([
  ["committed-answer", committedAnswerSchema],
  ["ownership-answer", ownershipAnswerSchema],
  ["acknowledged-answer", acknowledgedAnswerSchema],
  ["handoff-state-answer", handoffAnswerSchema],
  ["recovery-answer", recoveryAnswerSchema],
  ["removed-answer", removedAnswerSchema],
  ["retention-answer", retentionAnswerSchema],
  ["shred-answer", shredAnswerSchema],
  ["signature-answer", signatureAnswerSchema],
  ["mission-state-answer", missionAnswerSchema],
  ["mission-snapshot-answer", missionCheckpointAnswerSchema],
  ["resumption-answer", resumptionAnswerSchema],
  ["lock-answer", lockAnswerSchema],
  ["message-answer", messageAnswerSchema],
  ["mailbox-state-answer", mailboxAnswerSchema],
  ["queued-answer", queuedAnswerSchema],
  ["error-answer", errorAnswerSchema],
  ...COMMAND_OPS.map((op): [string, z.ZodType] => [`${op}-request`, COMMAND_SCHEMAS[op]]),
  ...QUERY_OPS.map((op): [string, z.ZodType] => [`${queryTag(op)}-request`, QUERY_SCHEMAS[op]]),
  ...QUERY_OPS.filter(isAnsweredOp).map((op): [string, z.ZodType] => [`${op}-answer`, queryAnswerSchema(op)]),
  ...EVENT_TYPES.map((type): [string, z.ZodType] => [`event-${type}`, eventTypeSchema(type)]),
  ["offer", offerSchema],
  ["heartbeat", heartbeatSchema],
  ["exit-report", exitReportSchema],
]);

function example<T>(tag: string): T {
  return examples.find((one) => one.tag === tag)?.value as T;
}

test("every kind of request, answer and event has an example, and every example has a kind", () => {
  expect([...new Set(examples.map(({ tag }) => tag))].sort()).toEqual([...schemas.keys()].sort());
});

test.each(examples)("an example of $tag is valid, without misspelt members", ({ tag, value }) => {
  const schema = schemas.get(tag) as z.ZodObject;
  expect(schema.safeParse(value).error?.issues).toBeUndefined();
  // Unknown members are allowed, so a misspelt one would pass.
  expect(Object.keys(schema.shape)).toEqual(expect.arrayContaining(Object.keys(value as object)));
});

test.each([...COMMAND_OPS, ...QUERY_OPS])("%s has a section", (op) => {
  expect(api).toContain(`\n### ${op}\n`);
});

test("the table of errors is that of the code", () => {
  // The formatter pads the columns of tables.
  const lines = api.replaceAll(/ +/g, " ");
  for (const code of ERROR_CODES) {
    const { retryable, meaning } = ERROR_TABLE[code];
    expect(lines).toContain(`| ${code} | ${retryable ? "yes" : "no"} | ${meaning} |`);
  }
});

describe("test vectors", () => {
  test("the checkpoint under get has the stated hash", () => {
    const { checkpoint } = example<{ result: { checkpoint: Checkpoint } }>("get-answer").result;
    expect(hashOf(checkpoint)).toBe(checkpoint.compliance.hash);
  });

  test("the checkpoints of the history have the stated hashes", () => {
    const { checkpoints } = example<{ result: QueryResults["history"] }>("history-answer").result;
    expect(checkpoints.length).toBeGreaterThan(1);
    for (const checkpoint of checkpoints) expect(hashOf(checkpoint)).toBe(checkpoint.compliance.hash);
  });

  test("the offer has the stated digest, and its acknowledgement has the same", () => {
    const { data } = example<Offer>("offer");
    expect(offerDigest(data)).toBe(data.digest);
    expect(example("acknowledge-request")).toMatchObject({ offer_digest: data.digest });
  });

  test("the audit entries are chained, and name the answered versions", () => {
    const { entries } = example<{ result: QueryResults["audit"] }>("audit-answer").result;
    expect(entries.length).toBeGreaterThan(1);
    let prev = "0".repeat(64);
    for (const { seq, entry, hash } of entries) {
      expect(JSON.parse(entry)).toMatchObject({ seq, prev });
      expect(entryHash(entry)).toBe(hash);
      prev = hash;
    }
    const first = example<{ hash: string }>("committed-answer");
    expect(entries.map(({ entry }) => JSON.parse(entry).new_hash)).toContain(first.hash);
  });
});
