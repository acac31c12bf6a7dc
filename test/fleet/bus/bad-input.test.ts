/** Hostile and mistaken messages on the bus: each is answered with a typed error that names the field, and nothing is stored. */

import { Packr } from "msgpackr";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import type { ErrorBody } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { administratorBus } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";

const TASK = "bad-input";
const good = (changes: object = {}) => ({
  command_id: uuidv7(),
  checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
  ...changes,
});
const withState = (state: object) =>
  good({ checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing", ...state } } });
const nested = (depth: number): unknown => (depth === 0 ? 1 : { a: nested(depth - 1) });

/** The body (an object is sent as JSON, a string or bytes unchanged), and the error code and the field's path of the answer. */
const commands: [name: string, body: object | string | Uint8Array, code: string, path: string | null][] = [
  ["an empty body", new Uint8Array(0), "INVALID", ""],
  ["invalid JSON", "{", "INVALID", ""],
  ["invalid UTF-8", new Uint8Array([0x22, 0xff, 0xfe, 0x22]), "INVALID", ""],
  ["a bare null", "null", "INVALID", ""],
  ["an array", "[]", "INVALID", ""],
  ["no command id", { checkpoint: good().checkpoint }, "INVALID", "command_id"],
  ["a UUIDv4 as command id", good({ command_id: crypto.randomUUID() }), "INVALID", "command_id"],
  ["no checkpoint", { command_id: uuidv7() }, "INVALID", "checkpoint"],
  ["an unknown phase", withState({ phase: "sleeping" }), "INVALID", "checkpoint.execution_state.phase"],
  ["a number as the goal", withState({ goal: 7 }), "INVALID", "checkpoint.execution_state.goal"],
  [
    "an item without a title",
    withState({ pending_items: [{ id: "x" }] }),
    "INVALID",
    "checkpoint.execution_state.pending_items.0.title",
  ],
  [
    "an unregistered agent type",
    good({ checkpoint: { metadata: { agent_type: "wizard" }, execution_state: { phase: "testing" } } }),
    "INVALID",
    "checkpoint.metadata.agent_type",
  ],
  [
    "a parent that is not an id",
    good({
      checkpoint: {
        metadata: { agent_type: "qa", parent_ids: ["x"] },
        execution_state: { phase: "testing" },
      },
    }),
    "INVALID",
    "checkpoint.metadata.parent_ids.0",
  ],
  ["a negative fence", good({ fence: -1 }), "INVALID", "fence"],
  ["65 levels of nesting", withState({ extra: nested(65) }), "INVALID", null],
  ["100,000 open brackets", "[".repeat(100_000), "INVALID", ""],
  [
    "a lone surrogate",
    `{"command_id":"${uuidv7()}","checkpoint":{"x":"\\ud800"}}`,
    "INVALID",
    "checkpoint.x",
  ],
  ["a duplicate name", '{"command_id":"a","checkpoint":{"b":1,"b":2}}', "INVALID", "checkpoint.b"],
  ["__proto__", '{"command_id":"a","checkpoint":{"__proto__":{"x":1}}}', "INVALID", "checkpoint.__proto__"],
  ["NaN", '{"command_id":NaN}', "INVALID", ""],
  ["an integer over 2^53", '{"a":9007199254740993}', "INVALID", "a"],
];

describe("bad input", () => {
  let fleet: TestFleet;
  let bus: Bus;
  let client: FleetClient;
  let stored: number;
  beforeAll(async () => {
    fleet = await startFleet({ FLEET_LOG_LEVEL: "error" });
    client = await fleet.client();
    stored = (await client.admin.status()).counts.checkpoints;
    bus = await administratorBus(fleet, "stranger");
  });
  afterAll(async () => {
    await bus.close();
    await fleet.stop();
  });

  function bytesOf(body: object | string | Uint8Array): Uint8Array {
    if (body instanceof Uint8Array) return body;
    return new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
  }

  async function errorFor(
    subject: string,
    body: Uint8Array,
    headers?: Record<string, string>,
  ): Promise<ErrorBody> {
    const out = { body, ...(headers && { headers }) };
    const message = await bus.request(subject, out, { timeoutMs: 5_000 });
    const contentType = message.headers.get(HEADERS.contentType);
    const answer =
      contentType === CONTENT_TYPES.msgpack
        ? new Packr({ useRecords: false }).unpack(message.body)
        : JSON.parse(new TextDecoder().decode(message.body));
    expect(answer.status).toBe("error");
    return answer.error as ErrorBody;
  }

  async function nothingStored(): Promise<void> {
    expect(await client.getTask(TASK)).toBeNull();
    expect((await client.admin.status()).counts.checkpoints).toBe(stored);
  }

  test.each(commands)("a create with %s", async (_, body, code, path) => {
    const error = await errorFor(SUBJECTS.command("default", "stranger", TASK, "create"), bytesOf(body));
    expect(error.code).toBe(code);
    if (path !== null) expect(error.fields?.map((field) => field.path)).toContain(path);
    expect(error.fields?.[0]?.expected).toBeTruthy();
    await nothingStored();
  });

  test("one answer names every wrong field", async () => {
    const body = bytesOf(withState({ phase: "x", goal: 1, completed_items: "none" }));
    const error = await errorFor(SUBJECTS.command("default", "stranger", TASK, "create"), body);
    expect(error.fields?.map(({ path }) => path).sort()).toEqual([
      "checkpoint.execution_state.completed_items",
      "checkpoint.execution_state.goal",
      "checkpoint.execution_state.phase",
    ]);
  });

  const packed = new Packr({ useRecords: false });
  test.each([
    ["invalid MessagePack", new Uint8Array([0xc1, 0x00])],
    ["a date", packed.pack({ command_id: new Date() })],
    ["a BigInt", packed.pack({ command_id: 2n ** 63n - 1n })],
    ["NaN", packed.pack({ command_id: Number.NaN })],
    ["a truncated message", packed.pack(good()).subarray(0, 20)],
  ])("MessagePack: %s", async (_, body) => {
    const headers = { [HEADERS.contentType]: CONTENT_TYPES.msgpack };
    const error = await errorFor(SUBJECTS.command("default", "stranger", TASK, "create"), body, headers);
    expect(error.code).toBe("INVALID");
    await nothingStored();
  });

  test("an unknown content type", async () => {
    const headers = { [HEADERS.contentType]: "text/html" };
    const error = await errorFor(
      SUBJECTS.command("default", "stranger", TASK, "create"),
      bytesOf(good()),
      headers,
    );
    expect(error.fields?.[0]?.path).toBe("content-type");
  });

  test.each([
    ["a command", SUBJECTS.command("default", "stranger", TASK, "create")],
    ["a query", SUBJECTS.query("default", "stranger", "get")],
  ])("%s of a newer version of the messages", async (_, subject) => {
    expect(await errorFor(subject, bytesOf(good()), { [HEADERS.protocol]: "2" })).toMatchObject({
      code: "UNSUPPORTED_VERSION",
      fields: [{ path: HEADERS.protocol, expected: "at most 1", got: "2" }],
    });
    await nothingStored();
  });

  test.each([
    ["an unknown operation", "fleet.cmd.default.a.t.destroy", "op"],
    ["a task that is too long", `fleet.cmd.default.a.${"t".repeat(65)}.create`, "task_id"],
    ["an unknown query", "fleet.query.default.stranger.everything", "op"],
  ])("a subject with %s", async (_, subject, path) => {
    const error = await errorFor(subject, bytesOf(good()));
    expect(error).toMatchObject({ code: "INVALID", fields: [{ path }] });
  });

  test.each([
    ["a history limit of 0", "history", { task_id: TASK, limit: 0 }, "limit"],
    ["a history limit of 10^9", "history", { task_id: TASK, limit: 1e9 }, "limit"],
    ["a search with a broken cursor", "search", { text: "hello", cursor: "bm90IGEgY3Vyc29y" }, "cursor"],
    ["a search from an invalid time", "search", { from: "yesterday" }, "from"],
    ["a get without an id", "get", {}, "checkpoint_id"],
    ["a get of an invalid id", "get", { checkpoint_id: "chk-1" }, "checkpoint_id"],
    ["an audit from 0", "audit", { task_id: TASK, from_seq: 0 }, "from_seq"],
  ] as const)("%s", async (_, op, body, path) => {
    const error = await errorFor(SUBJECTS.query("default", "stranger", op), bytesOf(body));
    expect(error.code).toBe("INVALID");
    expect(error.fields?.[0]?.path).toBe(path);
  });

  test("a checkpoint over 1 MB is TOO_LARGE, and a message over the payload limit does not leave the client", async () => {
    const subject = SUBJECTS.command("default", "stranger", TASK, "create");
    const error = await errorFor(subject, bytesOf(withState({ goal: "a".repeat(1_000_001) })));
    expect(error).toMatchObject({ code: "TOO_LARGE", fields: [{ path: "checkpoint" }] });
    const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
    const long = await errorFor(subject, new Uint8Array(LIMITS.payload_bytes_max + 1).fill(0x20), trace);
    expect(long).toMatchObject({ code: "TOO_LARGE", fields: [{ path: "" }] });
    const huge = { taskId: TASK, checkpoint: { ...good().checkpoint, x: "a".repeat(2_100_000) } };
    await expect(client.createCheckpoint(huge as never)).rejects.toMatchObject({ code: "TOO_LARGE" });
    await nothingStored();
  });

  test("a flood of invalid messages, with and without a reply subject, does not harm the service", async () => {
    const subject = SUBJECTS.command("default", "stranger", TASK, "create");
    const bodies = Array.from({ length: 2_000 }, (_, i) => ({ body: new Uint8Array([i % 256, 0xff]) }));
    for (const out of bodies) bus.publish(subject, out);
    const answers = await Promise.all(bodies.map((out) => bus.request(subject, out, { timeoutMs: 60_000 })));
    for (const { body } of answers) expect(Buffer.from(body).toString()).toMatch(/^\{"status":"error"/);
    await nothingStored();
    const outcome = await client.createCheckpoint({
      taskId: "after",
      checkpoint: good().checkpoint as never,
    });
    expect(outcome.outcome).toBe("committed");
  });
});
