/** `createCheckpoint` and `updateCheckpoint` of seed 000 §5.1, with a real writer, reader, store and nats-server. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hashOf } from "../../../../shared/integrity/seal.ts";
import type { Checkpoint, FleetClient } from "../../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";

let fleet: InProcessFleet;
let client: FleetClient;
beforeAll(async () => {
  fleet = await openInProcessFleet();
  client = await fleet.client("agent-7");
});
afterAll(() => fleet?.close());

const checkpoint = { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" as const } };

/** The members of the checkpoint, without those of the outcome. */
function sections(written: object): Checkpoint {
  const { schema_version, metadata, execution_state, context_summary, metrics, recovery, compliance } =
    written as Checkpoint;
  return { schema_version, metadata, execution_state, context_summary, metrics, recovery, compliance };
}

test("seed 000 §5.1 createCheckpoint: a create resolves with the checkpoint as it is stored, and with the outcome", async () => {
  const written = await client.createCheckpoint({ taskId: "made", checkpoint });
  expect(written).toMatchObject({ outcome: "committed", taskId: "made", version: 1, replayed: false });
  const stored = sections(written);
  expect(stored).toEqual(await client.getCheckpoint(written.checkpointId));
  expect(stored.metadata).toMatchObject({ agent_id: "agent-7", seq: 1, parent_ids: [] });
  expect(hashOf(stored)).toBe(stored.compliance.hash);
  expect(written).not.toHaveProperty("checkpoint");
});

test("seed 000 §5.1 updateCheckpoint: an update resolves with the version that it wrote, and so does its repetition", async () => {
  const { checkpointId } = await client.createCheckpoint({ taskId: "changed", checkpoint });
  const commandId = uuidv7();
  const first = () =>
    client.updateCheckpoint(checkpointId, { metrics: { tokens_consumed: 1 } }, { commandId });
  const written = await first();
  await client.updateCheckpoint(checkpointId, { metrics: { tokens_consumed: 2 } });
  const again = await first();
  for (const one of [written, again])
    expect(one).toMatchObject({ version: 2, metadata: { version: 2 }, metrics: { tokens_consumed: 1 } });
  expect(again).toMatchObject({ replayed: true });
});

test("a task's handle answers with the outcome alone", async () => {
  const outcome = await client.task("lean").checkpoint(checkpoint);
  expect(outcome).toMatchObject({ outcome: "committed" });
  for (const name of ["checkpoint", "metadata", "execution_state"]) expect(outcome).not.toHaveProperty(name);
});
