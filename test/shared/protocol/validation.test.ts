// One answer names every problem: its place, the expected value and the given one.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { checkpointInputSchema } from "../../../shared/protocol/checkpoint.ts";
import { COMMAND_SCHEMAS } from "../../../shared/protocol/commands.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { QUERY_SCHEMAS } from "../../../shared/protocol/queries.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import { joined, SECRET_PART, WRITTEN_SECRETS } from "./secrets.ts";

function refusal(schema: z.ZodType, input: unknown, root?: string): FleetError {
  try {
    validate(schema, input, root);
  } catch (error) {
    return error as FleetError;
  }
  throw new Error("it was accepted");
}

test("several problems at once, each with its place", () => {
  const error = refusal(checkpointInputSchema, {
    metadata: { agent_type: "a b", iteration: "3" },
    execution_state: { phase: "doing", pending_items: ["ok", { title: 3 }], progress_percent: 150 },
    metrics: { files_modified: "all" },
  });
  expect(error).toMatchObject({ name: "FleetError", code: "INVALID", message: "the input is not valid" });
  expect(error.fields).toEqual([
    { path: "execution_state.pending_items.1.title", expected: "a string", got: "3" },
    {
      path: "execution_state.phase",
      expected: "one of planning, implementing, testing, reviewing, complete, handoff",
      got: '"doing"',
    },
    { path: "execution_state.progress_percent", expected: "at most 100", got: "150" },
    { path: "metadata.agent_type", expected: "1 to 64 characters of A-Z a-z 0-9 _ -", got: '"a b"' },
    { path: "metadata.iteration", expected: "a number", got: '"3"' },
    { path: "metrics.files_modified", expected: "an array", got: '"all"' },
  ]);
});

const cases: [label: string, schema: z.ZodType, input: unknown, field: object][] = [
  ["no object", checkpointInputSchema, "x", { path: "", expected: "an object", got: '"x"' }],
  ["null", checkpointInputSchema, null, { path: "", expected: "an object", got: "null" }],
  ["an array", QUERY_SCHEMAS.latest, [1, 2], { path: "", expected: "an object", got: "array of 2" }],
  ["a missing member", QUERY_SCHEMAS.latest, {}, { path: "task_id", expected: "a string", got: "nothing" }],
  [
    "a bare item without text",
    checkpointInputSchema.shape.execution_state,
    { phase: "planning", pending_items: [""] },
    { path: "pending_items.0", expected: "a title of at least one character", got: '""' },
  ],
  [
    "an item of no known form",
    checkpointInputSchema.shape.execution_state,
    { phase: "planning", pending_items: [true] },
    {
      path: "pending_items.0",
      expected: "a title, or an item {id?, title, files_created?, files_modified?, at?, notes?}",
      got: "true",
    },
  ],
  [
    "an unknown member",
    z.strictObject({ known: z.string() }),
    { known: "x", knwon: 3 },
    { path: "knwon", expected: "no field of this name", got: "3" },
  ],
  [
    "a string too short",
    QUERY_SCHEMAS.search,
    { text: "" },
    { path: "text", expected: "at least 1 character", got: '""' },
  ],
  [
    "a string too long",
    QUERY_SCHEMAS.search,
    { text: "x".repeat(201) },
    { path: "text", expected: "at most 200 characters", got: "string of 201 characters" },
  ],
  [
    "a number too small",
    COMMAND_SCHEMAS.link.shape.fence,
    -1,
    { path: "", expected: "at least 0", got: "-1" },
  ],
  [
    "an array too long",
    z.array(z.int()).max(1),
    [1, 2],
    { path: "", expected: "at most 1 item", got: "array of 2" },
  ],
  [
    "a wrong option, in our words",
    QUERY_SCHEMAS.history,
    { task_id: "t", order: "up" },
    { path: "order", expected: "one of newest, oldest", got: '"up"' },
  ],
  [
    "a name that is too short",
    z.record(z.string().min(1), z.int()),
    { "": 1 },
    { path: "", expected: "a name of at least 1 character", got: '""' },
  ],
  ["a boolean", z.boolean(), "true", { path: "", expected: "true or false", got: '"true"' }],
  [
    "a page size",
    QUERY_SCHEMAS.search,
    { limit: 101 },
    { path: "limit", expected: "a number from 1 to 100", got: "101" },
  ],
  [
    "a position",
    QUERY_SCHEMAS.search,
    { wait_for: "12" },
    { path: "wait_for", expected: "a commit position: 20 hex digits", got: '"12"' },
  ],
  [
    "a long secret is not repeated",
    QUERY_SCHEMAS.latest,
    { task_id: "s".repeat(100) },
    { path: "task_id", got: "string of 100 characters" },
  ],
];
test.each(cases)("%s", (_, schema, input, field) => {
  expect(refusal(schema, input).fields).toEqual([expect.objectContaining(field)]);
});

describe("the root", () => {
  test("precedes every path", () => {
    expect(refusal(QUERY_SCHEMAS.latest, { task_id: 1 }, "body").fields[0]?.path).toBe("body.task_id");
  });
  test("is the path of a problem with the whole value", () => {
    expect(refusal(QUERY_SCHEMAS.latest, 1, "body").fields[0]?.path).toBe("body");
  });
});

test("no more than twenty problems are shown", () => {
  const pending_items = Array.from({ length: 50 }, () => ({ title: 1 }));
  const input = { metadata: { agent_type: "qa" }, execution_state: { phase: "planning", pending_items } };
  expect(refusal(checkpointInputSchema, input).fields).toHaveLength(20);
});

test("a valid value is returned as the schema outputs it", () => {
  expect(validate(QUERY_SCHEMAS.history, { task_id: "t", extra: 1 })).toEqual({
    task_id: "t",
    extra: 1,
    limit: 20,
    order: "newest",
  });
});

describe("secrets", () => {
  test.each(WRITTEN_SECRETS)("are in no part of an error: %s", (_, secret) => {
    const inputs = [
      { metadata: { agent_type: secret, iteration: secret }, execution_state: { phase: secret } },
      { metadata: { [secret]: 1 }, [secret]: 1, execution_state: { phase: `"${secret}"` } },
      { metadata: secret, execution_state: { pending_items: [secret, { title: [secret] }] } },
      secret,
    ];
    for (const input of inputs) {
      const body = refusal(checkpointInputSchema, input, "checkpoint").toBody();
      expect(body.fields).not.toEqual([]);
      expect(joined(JSON.stringify(body))).not.toMatch(SECRET_PART);
    }
    const error = new FleetError("CONFLICT", `a message with ${secret}`, {
      fields: [{ path: secret, expected: secret, got: secret }],
      details: { [secret]: { list: [secret] } },
    });
    const bodies = [
      error.toBody(),
      FleetError.fromBody(error.toBody()).toBody(),
      invalid("a", "b", secret).toBody(),
    ];
    expect(joined(JSON.stringify(bodies))).not.toMatch(SECRET_PART);
  });

  test("the texts of an error are bounded", () => {
    const long = "x ".repeat(5_000);
    const { fields, details } = new FleetError("INVALID", "no", {
      fields: [{ path: long, expected: "a name", got: long }],
      details: { long },
    });
    expect(fields[0]?.path).toHaveLength(LIMITS.error_field_chars_max + 1);
    expect(fields[0]?.got).toHaveLength(LIMITS.error_field_chars_max + 1);
    expect(details.long).toHaveLength(LIMITS.error_text_chars_max + 1);
  });
});
