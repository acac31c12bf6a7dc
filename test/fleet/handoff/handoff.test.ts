// Handoffs from the request to the next agent's first checkpoint, through real processes; and every bad input, each with its end, its
// event and its audit entry.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Offer } from "../../../shared/protocol/offer.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { TestCluster } from "../../harness/processes/cluster.ts";
import { input } from "../../harness/records/records.ts";

type Json = Record<string, unknown>;

let bench: TestCluster;
beforeAll(async () => {
  bench = await TestCluster.open();
}, 120_000);
afterAll(() => bench?.close());

/** Offers to a type, in the order of their coming. */
async function offersTo(agentType: string): Promise<Offer[]> {
  const offers: Offer[] = [];
  await bench.onOffer(agentType, async (offer) => void offers.push(offer));
  return offers;
}

const until = (condition: () => boolean): Promise<void> =>
  expect.poll(condition, { timeout: 60_000, interval: 10 }).toBe(true);
const committed = { status: "committed" };

describe("with the built-in policy", () => {
  let toImplementation: Offer[];
  let toQa: Offer[];
  beforeAll(async () => {
    await bench.startCoordinator();
    toImplementation = await offersTo("implementation");
    toQa = await offersTo("qa");
  }, 120_000);
  afterAll(() => bench.killCoordinators());

  const offerOf = async (offers: Offer[], id: string): Promise<Offer> => {
    await until(() => offers.some(({ data }) => data.handoff_id === id));
    return offers.find(({ data }) => data.handoff_id === id) as Offer;
  };

  test("a task goes from an owner to the next agent of its type, and the owner before is shut out", async () => {
    const task = "cycle";
    expect(await bench.command("take", task, {}, { agent: "agent-a" })).toMatchObject(committed);
    await bench.write(task, { agent: "agent-a", fence: 1 });
    const id = await bench.handOff(task, { reason: "the context is full" }, { agent: "agent-a", fence: 1 });

    const { data, ...envelope } = await offerOf(toImplementation, id);
    const handoff = await bench.until(id, "offered");
    expect(envelope).toMatchObject({ id: `${id}/1`, type: "HANDOFF_OFFER", subject: task });
    expect(data).toMatchObject({
      handoff_id: id,
      task_id: task,
      agent_type: "implementation",
      checkpoint: { id, version: 1, hash: handoff.checkpoint_hash },
      from_agent: "agent-a",
      reason: "the context is full",
      prompt_style: "standard",
      fence_to_be: 2,
      attempt: 1,
      max_attempts: 3,
      deadline: handoff.deadline,
    });
    expect(data.prompt).toContain("write the code");
    expect(data.prompt_tokens).toBeLessThanOrEqual(2_000);

    const accepted = await bench.acknowledge(data, "agent-b");
    expect(accepted).toMatchObject({ ...committed, owner: "agent-b", fence: 2, handoff_id: id });
    const late = await bench.command("create", task, { checkpoint: input() }, { agent: "agent-a", fence: 1 });
    expect(late).toMatchObject({ status: "error", error: { code: "FENCED" } });
    await bench.write(task, { agent: "agent-b", fence: 2 });

    expect(await bench.handoff(id)).toMatchObject({ state: "confirmed", accepted_by: "agent-b", fence: 2 });
    expect(await bench.repository.task("default", task)).toMatchObject({
      state: "active",
      owner: "agent-b",
      handoff_id: null,
    });
    expect(await bench.ops(task)).toEqual([
      "take",
      "create",
      "create",
      "handoff",
      "validate",
      "offer",
      "acknowledge",
      "create",
      "confirm",
    ]);
    expect((await bench.events(task)).map(({ type }) => type)).toEqual([
      "TASK_TAKEN",
      "CHECKPOINT_CREATED",
      "CHECKPOINT_CREATED",
      "AGENT_HANDOFF",
      "HANDOFF_VALIDATED",
      "HANDOFF_OFFERED",
      "HANDOFF_ACKNOWLEDGED",
      "CHECKPOINT_CREATED",
      "HANDOFF_CONFIRMED",
    ]);
  }, 120_000);

  test("a change of phase goes to the type of the phase, and a type that is asked for by name comes first", async () => {
    const byPhase = await bench.handOff("by-phase", { next_phase: "testing" });
    const byName = await bench.handOff("by-name", { next_phase: "testing", to_agent_type: "implementation" });
    expect((await offerOf(toQa, byPhase)).data).toMatchObject({ agent_type: "qa", next_phase: "testing" });
    expect((await offerOf(toImplementation, byName)).data).toMatchObject({ agent_type: "implementation" });
  }, 120_000);

  test("a checkpoint that was finalized after the request is offered as it is now", async () => {
    await bench.killCoordinators();
    const id = await bench.handOff("finalized");
    const finalize = { checkpoint_id: id, status: "handed_off" };
    expect(await bench.command("finalize", "finalized", finalize)).toMatchObject(committed);
    await bench.startCoordinator();
    expect((await offerOf(toImplementation, id)).data.checkpoint).toMatchObject({ id, version: 2 });
  }, 120_000);

  test("of eight agents that take one offer at once, one has the task", async () => {
    const id = await bench.handOff("contended");
    const { data } = await offerOf(toImplementation, id);
    const names = Array.from({ length: 8 }, (_, n) => `taker-${n}`);
    const answers = await Promise.all(names.map((agent) => bench.acknowledge(data, agent)));
    const winners = names.filter((_, i) => answers[i]?.status === "committed");
    expect(winners).toHaveLength(1);
    for (const answer of answers) {
      if (answer.status === "committed") continue;
      expect(answer).toMatchObject({ error: { code: "CONFLICT", details: { accepted_by: winners[0] } } });
    }
    expect(await bench.repository.task("default", "contended")).toMatchObject({
      owner: winners[0],
      fence: 1,
    });
    expect((await bench.ops("contended")).filter((op) => op === "acknowledge")).toHaveLength(1);
  }, 120_000);

  test("an agent of another type, or with another checkpoint, is refused and the offer stands", async () => {
    const id = await bench.handOff("typed");
    const { data } = await offerOf(toImplementation, id);
    const before = await bench.ops("typed");
    expect(await bench.acknowledge(data, "agent-q", { agent_type: "qa" })).toMatchObject({
      error: { code: "INVALID", fields: [{ path: "agent_type" }] },
    });
    const other = { checkpoint_id: "019bef72-b230-7a31-b5c4-0d6e2f9a1b02" };
    expect(await bench.acknowledge(data, "agent-q", other)).toMatchObject({
      error: { code: "INVALID", fields: [{ path: "checkpoint_id" }] },
    });
    expect(await bench.ops("typed")).toEqual(before);
    expect(await bench.acknowledge(data, "agent-b")).toMatchObject(committed);
  }, 120_000);

  test("a handoff that was taken back, or is confirmed, can be taken no more", async () => {
    const cancelled = await bench.handOff("cancelled");
    const offer = await offerOf(toImplementation, cancelled);
    const back = { handoff_id: cancelled, reason: "one more test first" };
    expect(await bench.command("cancel_handoff", "cancelled", back)).toMatchObject({
      ...committed,
      state: "cancelled",
    });
    expect(await bench.acknowledge(offer.data, "agent-b")).toMatchObject({
      error: { code: "CONFLICT", details: { state: "cancelled" } },
    });
    const failed = (await bench.events("cancelled")).at(-1);
    expect(failed).toMatchObject({
      type: "HANDOFF_FAILED",
      data: { state: "cancelled", reason: "withdrawn" },
    });
    expect((await bench.audit("cancelled")).at(-1)).toMatchObject({
      op: "cancel_handoff",
      handoff_id: cancelled,
    });

    const confirmed = await bench.handOff("confirmed");
    const { data } = await offerOf(toImplementation, confirmed);
    expect(await bench.acknowledge(data, "agent-b")).toMatchObject(committed);
    await bench.write("confirmed", { agent: "agent-b", fence: 1 });
    expect(await bench.acknowledge(data, "agent-c")).toMatchObject({
      error: { code: "CONFLICT", details: { state: "confirmed", accepted_by: "agent-b" } },
    });
    const owner = { agent: "agent-b", fence: 1 };
    expect(
      await bench.command("cancel_handoff", "confirmed", { handoff_id: confirmed }, owner),
    ).toMatchObject({
      error: { code: "CONFLICT" },
    });
  }, 120_000);

  test("a type of agent that the writer does not know is refused, and one that only a coordinator does not know is for a person", async () => {
    await bench.write("unknown-type");
    const before = await bench.ops("unknown-type");
    expect(await bench.command("handoff", "unknown-type", { to_agent_type: "wizard" })).toMatchObject({
      error: { code: "INVALID", fields: [{ path: "to_agent_type" }] },
    });
    expect(await bench.ops("unknown-type")).toEqual(before);
    const id = await bench.handOff("unknown-type", { to_agent_type: "astrologer" });
    const handoff = await bench.until(id, "escalated");
    expect(handoff.failure).toMatchObject({ reason: "agent_type_unknown" });
    expect(handoff.failure?.details).toContain("astrologer");
    await blocked("unknown-type", id, { state: "escalated", reason: "agent_type_unknown" });
  }, 120_000);
});

/** Blocked, with the two entries and events of that, and a critical alert. */
async function blocked(task: string, id: string, failure: { state: string; reason: string }): Promise<void> {
  expect(await bench.repository.task("default", task)).toMatchObject({ state: "blocked", handoff_id: null });
  expect((await bench.events(task)).slice(-2)).toMatchObject([
    { type: "HANDOFF_FAILED", data: { handoffId: id, ...failure } },
    { type: "TASK_BLOCKED", data: { taskId: task, handoffId: id, reason: failure.reason } },
  ]);
  expect((await bench.audit(task)).slice(-2)).toMatchObject([
    { op: failure.state === "rejected" ? "reject" : "escalate", handoff_id: id, reason: failure.reason },
    { op: "block", state_to: "blocked" },
  ]);
  expect(await bench.alerts(task, 1)).toMatchObject([
    { type: "HANDOFF_FAILED", severity: "critical", data: { handoffId: id, taskId: task, ...failure } },
  ]);
}

describe("what is broken is rejected, quarantined, blocked and told", () => {
  afterEach(() => bench.killCoordinators());

  async function flip(key: Uint8Array, at = -3): Promise<void> {
    await bench.store.transact({ label: "damage", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) => {
      const value = Buffer.from((await tx.get(key)) ?? []);
      const place = value.length + at;
      value[place] = (value[place] ?? 0) ^ 0x20;
      tx.set(key, value);
    });
  }

  test("a checkpoint whose bytes do not verify", async () => {
    const id = await bench.handOff("bad-hash");
    await flip(tenantKeys("default").checkpoint("bad-hash", id));
    await bench.startCoordinator();
    expect((await bench.until(id, "rejected")).failure).toMatchObject({ reason: "hash_broken" });
    await blocked("bad-hash", id, { state: "rejected", reason: "hash_broken" });
    expect((await bench.events("bad-hash")).map(({ type }) => type)).toContain("CHECKPOINT_CORRUPTED");
  }, 120_000);

  test("an ancestor that does not verify", async () => {
    const first = (await bench.write("bad-parent")).checkpoint_id as string;
    await bench.write("bad-parent");
    const id = await bench.handOff("bad-parent");
    await flip(tenantKeys("default").checkpoint("bad-parent", first));
    await bench.startCoordinator();
    expect((await bench.until(id, "rejected")).failure).toMatchObject({ reason: "chain_broken" });
    await blocked("bad-parent", id, { state: "rejected", reason: "chain_broken" });
  }, 120_000);

  test("an audit trail that was changed", async () => {
    await bench.write("bad-trail");
    const id = await bench.handOff("bad-trail");
    await bench.write("bad-trail");
    // The entry of the request, between the checkpoint's own and the newest.
    await flip(tenantKeys("default").audit("bad-trail", 3), -30);
    await bench.startCoordinator();
    const handoff = await bench.until(id, "rejected");
    expect(handoff.failure).toMatchObject({ reason: "chain_broken" });
    expect(handoff.failure?.details).toContain("audit trail");
    expect(await bench.alerts("bad-trail", 1)).toMatchObject([{ severity: "critical" }]);
  }, 120_000);
});

describe("with a policy that has little patience", () => {
  const policy = {
    defaults: { offer: { deadline_ms: 1_000, max_attempts: 2 }, first_checkpoint_ms: 1_000 },
    tenants: { default: { agent_types: { documentation: { offer: { prompt_tokens: 5 } } } } },
  };
  beforeAll(() => bench.startCoordinator({ policy }), 120_000);
  afterAll(() => bench.killCoordinators());

  test("an offer that nobody takes is made again, and then is for a person", async () => {
    const id = await bench.handOff("untaken", { to_agent_type: "architecture" });
    const handoff = await bench.until(id, "escalated");
    expect(handoff).toMatchObject({ attempt: 2, failure: { reason: "no_agent" } });
    const ops = ["create", "handoff", "validate", "offer", "offer", "escalate", "block"];
    expect(await bench.ops("untaken")).toEqual(ops);
    await blocked("untaken", id, { state: "escalated", reason: "no_agent" });
    // The offers still lie there; whoever finds one now is told that it is void.
    const offers = await offersTo("architecture");
    await until(() => offers.length === 2);
    expect(offers.map((offer) => offer.id)).toEqual([`${id}/1`, `${id}/2`]);
    const answer = await bench.acknowledge((offers[1] as Offer).data, "agent-b");
    expect(answer).toMatchObject({ error: { code: "CONFLICT", details: { state: "escalated" } } });
  }, 120_000);

  test("an acknowledgement after the deadline is refused", async () => {
    const id = await bench.handOff("late", { to_agent_type: "architecture" });
    const offered = await bench.until(id, "offered");
    await bench.killCoordinators();
    await until(() => Date.now() > Date.parse(offered.deadline ?? "") + 50);
    const offer = { handoff_id: id, task_id: "late", agent_type: "architecture" };
    const checkpoint = { id, version: 1, hash: offered.checkpoint_hash };
    const answer = await bench.acknowledge({ ...offer, checkpoint }, "agent-b");
    expect(answer).toMatchObject({ error: { code: "CONFLICT", details: { deadline: offered.deadline } } });
    await bench.startCoordinator({ policy });
    await bench.until(id, "escalated");
  }, 120_000);

  test("an agent that took a task and writes nothing has lapsed", async () => {
    const offers: Json[] = [];
    await bench.onOffer("qa", async ({ data }) => {
      if (data.task_id === "silent") offers.push(await bench.acknowledge(data, "agent-b"));
    });
    const id = await bench.handOff("silent", { to_agent_type: "qa" });
    expect((await bench.until(id, "lapsed")).failure).toMatchObject({ reason: "no_first_checkpoint" });
    expect(offers[0]).toMatchObject(committed);
    expect((await bench.events("silent")).at(-1)).toMatchObject({
      type: "HANDOFF_FAILED",
      data: { handoffId: id, state: "lapsed" },
    });
    expect((await bench.audit("silent")).at(-1)).toMatchObject({ op: "lapse", handoff_id: id });
    expect(await bench.alerts("silent", 1)).toMatchObject([
      { severity: "warning", data: { state: "lapsed" } },
    ]);
  }, 120_000);

  test("a budget smaller than what a prompt never leaves out is for a person", async () => {
    const id = await bench.handOff("tight", { to_agent_type: "documentation" });
    const { failure } = await bench.until(id, "escalated");
    expect(failure?.reason).toBe("prompt_over_budget");
    expect(failure?.details).toMatch(/at least \d+/);
    await blocked("tight", id, { state: "escalated", reason: "prompt_over_budget" });
  }, 120_000);
});
