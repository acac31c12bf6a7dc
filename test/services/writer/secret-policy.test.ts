// A tenant whose policy refuses secrets, on a real nats-server and a real store.
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { policySchema, refusesSecrets } from "../../../shared/protocol/policy.ts";
import { creation, type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { input } from "../../harness/records/records.ts";
import { SECRETS } from "../../shared/protocol/secrets.ts";

const TOKEN = SECRETS["GitHub token"]!;
const withGoal = (goal: string) => {
  const { execution_state, ...rest } = input();
  return { ...rest, execution_state: { ...execution_state, goal } };
};

let fleet: InProcessFleet;

beforeAll(async () => {
  const policies = policySchema.parse({ refuse_secrets: true, tenants: { open: { refuse_secrets: false } } });
  fleet = await openInProcessFleet({ policies });
});
afterAll(() => fleet.close());

const REFUSED = {
  status: "error",
  error: { code: "INVALID", message: "the command has secrets, which the policy of the tenant refuses" },
};

test("a command of a client that knows no redaction is refused with places and rules", async () => {
  const reply = await fleet.send("create", creation({ checkpoint: withGoal(`use ${TOKEN} and ${TOKEN}`) }));
  expect(reply).toMatchObject(REFUSED);
  expect(reply).toMatchObject({
    error: {
      fields: Array(2).fill({
        path: "checkpoint.execution_state.goal",
        expected: "no secret (GitHub token)",
      }),
      details: { secrets: 2 },
    },
  });
  expect(JSON.stringify(reply)).not.toContain("Qz7Vk9");
  const counted = (await fleet.metrics.secretsRefusedTotal.get()).values;
  expect(counted).toMatchObject([{ labels: { rule: "GitHub token" }, value: 2 }]);
});

test("patches, forks, handoffs and messages are refused too", async () => {
  const { command_id: checkpoint_id, ...rest } = creation();
  expect(await fleet.send("create", { command_id: checkpoint_id, ...rest })).toMatchObject({
    status: "committed",
  });
  const bodies = [
    ["update", { checkpoint_id, patch: { execution_state: { goal: TOKEN } } }],
    ["handoff", { reason: `see ${TOKEN}` }],
    ["fork", { source_task_id: "task-1", goal: TOKEN }],
    ["message_send", { to: ["agent-2"], subject: "a", body: TOKEN }],
  ] as const;
  for (const [op, body] of bodies)
    expect(await fleet.send(op, { command_id: uuidv7(), ...body })).toMatchObject(REFUSED);
});

test("in the queue it becomes a dead letter", async () => {
  await fleet.enqueue("create", creation({ checkpoint: withGoal(TOKEN) }), { task: "queued" });
  await fleet.drained();
  expect(await fleet.letters()).toMatchObject([{ reason: "invalid" }]);
});

test("a client that removes secrets is not refused", async () => {
  const client = await fleet.client("agent-3", { env: {}, redaction: "on" });
  const call = { taskId: "clean", checkpoint: withGoal(`use ${TOKEN}`) as never };
  const written = await client.createCheckpoint(call);
  expect(written).toMatchObject({
    outcome: "committed",
    execution_state: { goal: "use [redacted: GitHub token]" },
    redacted: [{ rule: "GitHub token" }],
  });
});

test("a tenant with another policy is not refused", async () => {
  const body = creation({ checkpoint: withGoal(TOKEN) });
  expect(await fleet.send("create", body, { tenant: "open" })).toMatchObject({ status: "committed" });
});

test("without a policy nothing is refused, and a misspelt name is", () => {
  expect(refusesSecrets(policySchema.parse({}), "default")).toBe(false);
  expect(policySchema.safeParse({ refuse_secret: true }).success).toBe(false);
  expect(
    policySchema.safeParse({ tenants: { a: { agent_types: { qa: { refuse_secrets: true } } } } }).success,
  ).toBe(false);
});
