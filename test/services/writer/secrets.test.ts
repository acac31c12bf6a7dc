/** Input with secrets, on a real nats-server and a real store: no reply, event, dead letter or answer of a query repeats one. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HEADERS, STREAMS } from "../../../shared/protocol/subjects.ts";
import { creation, type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { input } from "../../harness/records/records.ts";
import { joined, SECRET_PART, WRITTEN_SECRETS } from "../../shared/protocol/secrets.ts";

let fleet: InProcessFleet;

beforeAll(async () => {
  fleet = await openInProcessFleet();
});
afterAll(() => fleet.close());

const clean = (value: unknown) => expect(joined(JSON.stringify(value))).not.toMatch(SECRET_PART);

test("wrong values and names", async () => {
  const bodies = WRITTEN_SECRETS.flatMap(([, secret]) => [
    { command_id: secret },
    creation({ checkpoint: { [secret]: secret } }),
    creation({ checkpoint: { metadata: { agent_type: secret }, execution_state: { phase: `"${secret}"` } } }),
    creation({
      checkpoint: { ...input(), execution_state: { [secret]: secret, pending_items: [{ [secret]: 1 }] } },
    }),
  ]);
  const client = await fleet.client("agent-2");
  for (const body of bodies) {
    const reply = await fleet.send("create", body);
    expect(reply).toMatchObject({ status: "error", error: { code: "INVALID" } });
    clean(reply);
    await fleet.enqueue("create", body);
  }
  for (const [, secret] of WRITTEN_SECRETS) {
    clean(await fleet.ask("task", { task_id: secret }));
    clean(await fleet.ask("handoffs", { [secret]: secret, cursor: secret }));
    const error = await client.getCheckpoint(secret).catch((failure: unknown) => failure);
    clean([String(error), error, (error as { fields?: unknown }).fields]);
  }
  await fleet.drained();
  const view = fleet.bus.stream(STREAMS.dead);
  const letters = await view.list(1, 1_000);
  expect(letters).toHaveLength(bodies.length);
  for (const { headers } of letters) clean(headers.get(HEADERS.deadError));
  clean((await fleet.ask("dead_list", { limit: 100 })).result);
});

test("names of changed fields in events", async () => {
  const { command_id: checkpoint_id, ...created } = creation();
  await fleet.send("create", { ...created, command_id: checkpoint_id });
  for (const [, secret] of WRITTEN_SECRETS) {
    const patch = { metrics: { [secret]: 1 } };
    const reply = await fleet.send("update", { command_id: uuidv7(), checkpoint_id, patch });
    expect(reply).toMatchObject({ status: "committed" });
  }
  const view = fleet.bus.stream(STREAMS.events);
  await expect.poll(async () => (await view.state()).messages).toBeGreaterThan(WRITTEN_SECRETS.length);
  for (const { seq } of await view.list(1, 1_000)) {
    clean(Buffer.from((await view.get(seq))?.body ?? "").toString());
  }
});
