// A command whose first attempt may be in the queue, and whose repetition is refused: the refusal is final only if its reason cannot pass.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

let nats: TestNats;
let bus: Bus;
let client: FleetClient;
/** The answers of the writer to come; after the last one, each request is committed. */
let errors: FleetError[] = [];

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "writer", identity: "writer", log: testLog });
  const encode = (value: object) => ({ body: Buffer.from(JSON.stringify(value)) });
  const rules = { queue: "writer", concurrencyMax: 10, waitMsMax: 10_000, isOwnReply: () => true };
  const nothing = { dropped: () => {}, overload: () => encode({}), failed: () => encode({}) };
  await bus.serve(SUBJECTS.everyCommand, { ...rules, ...nothing }, async ({ body }) => {
    const { command_id } = JSON.parse(Buffer.from(body).toString()) as { command_id: string };
    const error = errors.shift();
    if (error !== undefined) return encode({ status: "error", error: error.toBody() });
    const ids = { command_id, task_id: "t", checkpoint_id: command_id, version: 1, seq: 1 };
    return encode({ status: "committed", ...ids, hash: "", committed_at: "", position: "", replayed: false });
  });
  client = await connect({ url: nats.url, agentId: "agent", fallback: "queue", env: {} });
});

afterAll(async () => {
  await client?.close();
  await bus?.close();
  await nats?.stop();
});

const timeout = () => new FleetError("TIMEOUT", "the queue did not answer");
const fenced = (given: number | null) =>
  new FleetError("FENCED", "the task has an owner", { details: { owner: "b", fence: 2, given } });
const versioned = (expected: number, got: number) =>
  new FleetError("CONFLICT", "the task has another version", {
    fields: [{ path: "expected_version", expected: String(expected), got: String(got) }],
  });
const plain = (code: "CONFLICT" | "NOT_FOUND" | "CORRUPT" | "FINALIZED" | "INVALID") =>
  new FleetError(code, "refused");

let ids = 0;
const newId = () => `019bef77-bb42-7a31-b5c4-${String(++ids).padStart(12, "0")}`;
const write = (commandId: string) =>
  client
    .task("t")
    .checkpoint(
      { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
      { commandId, deadlineMs: 60_000 },
    );

test.each([
  ["FENCED without a fence", fenced(null)],
  ["CONFLICT", plain("CONFLICT")],
  ["CONFLICT about a version that is still to come", versioned(1, 2)],
  ["NOT_FOUND", plain("NOT_FOUND")],
  ["CORRUPT", plain("CORRUPT")],
])("%s leaves the outcome open, until a repetition is answered", async (_, refusal) => {
  const commandId = newId();
  errors = [timeout(), refusal, refusal];
  const isOpen = { code: "TIMEOUT", details: { refused: refusal.code, command_id: commandId } };
  await expect(write(commandId)).rejects.toMatchObject(isOpen);
  expect(errors).toHaveLength(1);
  // The caller repeats it, as after every TIMEOUT.
  await expect(write(commandId)).rejects.toMatchObject(isOpen);
  expect(await write(commandId)).toMatchObject({ outcome: "committed" });
  errors = [refusal];
  await expect(write(commandId)).rejects.toMatchObject({ code: refusal.code });
});

test.each([
  ["FENCED with an old fence", fenced(1)],
  ["CONFLICT about a version that is past", versioned(3, 2)],
  ["FINALIZED", plain("FINALIZED")],
  ["INVALID", plain("INVALID")],
])("%s is final", async (_, refusal) => {
  errors = [timeout(), refusal];
  await expect(write(newId())).rejects.toMatchObject({ code: refusal.code });
});

test("a refusal of the first attempt is final", async () => {
  errors = [fenced(null)];
  await expect(write(newId())).rejects.toMatchObject({ code: "FENCED" });
});
