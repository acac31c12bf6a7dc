/** People act on tasks as agents do, under tokens that no agent can have, and the audit trail tells them apart. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectBus } from "../../shared/bus/connection.ts";
import { SUBJECTS } from "../../shared/protocol/subjects.ts";
import { connect } from "../../shared/sdk/sdk.ts";
import { creation, type InProcessFleet, openInProcessFleet } from "../harness/in-process-fleet.ts";
import { testLog } from "../harness/processes/nats.ts";
import { input } from "../harness/records/records.ts";

const PERSON = "human=ada";
let fleet: InProcessFleet;

beforeAll(async () => {
  fleet = await openInProcessFleet();
});

afterAll(() => fleet?.close());

const take = { command_id: uuidv7() };

test("a person takes a task from an agent, writes a checkpoint, hands the task off and withdraws the handoff", async () => {
  const as = (agent: string) => ({ agent, task: "shared" });
  await fleet.send("create", creation(), as("ada"));
  expect(await fleet.send("take", { command_id: uuidv7() }, as("ada"))).toMatchObject({
    owner: "ada",
    fence: 1,
  });
  expect(await fleet.send("take", take, as(PERSON))).toMatchObject({ owner: PERSON, fence: 2 });
  expect(await fleet.send("create", creation({ fence: 1 }), as("ada"))).toMatchObject({
    error: { code: "FENCED" },
  });
  const written = await fleet.send("create", creation({ fence: 2 }), as(PERSON));
  expect(written).toMatchObject({ status: "committed" });
  const got = await fleet.ask("get", { checkpoint_id: written.checkpoint_id });
  expect(got).toMatchObject({ result: { checkpoint: { metadata: { agent_id: PERSON } } } });
  const found = await fleet.ask("by_agent", { agent_id: PERSON, wait_for: written.position });
  expect(found).toMatchObject({ status: "ok" });
  for (const op of ["handoff", "cancel_handoff", "release"] as const) {
    const body = op === "handoff" ? { to_agent_type: "qa" } : {};
    const answer = await fleet.send(op, { command_id: uuidv7(), fence: 2, ...body }, as(PERSON));
    expect(answer, op).toMatchObject({ status: "committed" });
  }
  const entries = await fleet.audit("shared");
  expect(entries.map(({ op, actor }) => [op, actor])).toEqual([
    ["create", { id: "ada", type: "agent" }],
    ["take", { id: "ada", type: "agent" }],
    ...["take", "create", "handoff", "cancel_handoff", "release"].map((op) => [
      expect.stringContaining(op.slice(0, 4)),
      { id: PERSON, type: "human" },
    ]),
  ]);
});

test("the command of a person waits in the queue and is applied once", async () => {
  const body = creation();
  await fleet.enqueue("create", body, { agent: PERSON, task: "queued" });
  await fleet.drained();
  expect(await fleet.applied("queued")).toEqual([body.command_id]);
  expect((await fleet.audit("queued"))[0]).toMatchObject({ actor: { id: PERSON, type: "human" } });
});

test("a client of a person writes and asks in the person's name", async () => {
  const client = await connect({ url: fleet.nats.url, agentId: PERSON, fallback: "none" });
  await client.createCheckpoint({ taskId: "own", checkpoint: input() as never });
  expect((await fleet.audit("own"))[0]).toMatchObject({ actor: { id: PERSON, type: "human" } });
  await client.close();
});

test.each(["human=", "human=a=b", "service=writer", "=writer"])(
  "the caller %s is refused",
  async (caller) => {
    const bus = await connectBus({ url: fleet.nats.url, name: "raw", identity: "raw", log: testLog });
    const subject = SUBJECTS.query("default", "raw", "status").replace(".raw.", `.${caller}.`);
    const options = { timeoutMs: 200 };
    await expect(bus.request(subject, { body: Buffer.from("{}") }, options)).rejects.toMatchObject({
      kind: "timeout",
    });
    await bus.close();
  },
);
