// Handoffs through real processes, from the request to the next agent's first checkpoint; and every bad input with its end, event and
// audit entry.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Offer } from "../../../shared/protocol/offer.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { CLUSTER_ENGINES, TestCluster } from "../../harness/processes/cluster.ts";
import { input } from "../../harness/records/records.ts";

type Json = Record<string, unknown>;

describe.each(CLUSTER_ENGINES)("on %s", (engine) => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await TestCluster.open(engine);
  }, 120_000);
  afterAll(() => cluster?.close());

  const stops: Stop[] = [];

  /** The offers to an agent type, in the order of their arrival. */
  async function offersTo(agentType: string): Promise<Offer[]> {
    const offers: Offer[] = [];
    stops.push(await cluster.onOffer(agentType, async (offer) => void offers.push(offer)));
    return offers;
  }

  /** Ends the consumers of {@link offersTo}, which would share the offers with the consumers of a later test. */
  async function stopConsumers(): Promise<void> {
    await Promise.all(stops.splice(0).map((stop) => stop()));
  }

  const until = (condition: () => boolean): Promise<void> =>
    expect.poll(condition, { timeout: 60_000, interval: 10 }).toBe(true);
  const committed = { status: "committed" };

  describe("with the built-in policy", () => {
    let toImplementation: Offer[];
    let toQa: Offer[];
    beforeAll(async () => {
      await cluster.startCoordinator();
      toImplementation = await offersTo("implementation");
      toQa = await offersTo("qa");
    }, 120_000);
    afterAll(() => Promise.all([cluster.killCoordinators(), stopConsumers()]));

    const offerOf = async (offers: Offer[], id: string): Promise<Offer> => {
      await until(() => offers.some(({ data }) => data.handoff_id === id));
      return offers.find(({ data }) => data.handoff_id === id) as Offer;
    };

    test("a task passes from its owner to the next agent of its type, and the superseded owner is refused", async () => {
      const task = "cycle";
      const owner = { agent: "agent-a", fence: 1 };
      expect(await cluster.command("take", task, {}, { agent: "agent-a" })).toMatchObject(committed);
      await cluster.write(task, owner);
      const id = await cluster.handOff(task, { reason: "the context is full" }, owner);

      const { data, ...envelope } = await offerOf(toImplementation, id);
      const handoff = await cluster.until(id, "offered");
      expect(envelope).toMatchObject({ id: `${id}/1`, type: "HANDOFF_OFFER", subject: task });
      expect(data).toMatchObject({
        handoff_id: id,
        task_id: task,
        agent_type: "implementation",
        checkpoint: { id, version: 1, hash: handoff.checkpoint_hash },
        from_agent: "agent-a",
        reason: "the context is full",
        prompt_style: "standard",
        salt: expect.stringMatching(/^[0-9a-f]{64}$/),
        fence_to_be: 2,
        attempt: 1,
        max_attempts: 3,
        deadline: handoff.deadline,
      });
      expect(data.prompt).toContain("write the code");
      expect(data.prompt_tokens).toBeLessThanOrEqual(2_000);

      const accepted = await cluster.acknowledge(data, "agent-b");
      expect(accepted).toMatchObject({ ...committed, owner: "agent-b", fence: 2, handoff_id: id });
      const late = await cluster.command("create", task, { checkpoint: input() }, owner);
      expect(late).toMatchObject({ status: "error", error: { code: "FENCED" } });
      await cluster.write(task, { agent: "agent-b", fence: 2 });

      expect(await cluster.handoff(id)).toMatchObject({
        state: "confirmed",
        accepted_by: "agent-b",
        fence: 2,
      });
      expect(await cluster.repository.task("default", task)).toMatchObject({
        state: "active",
        owner: "agent-b",
        handoff_id: null,
      });
      expect(await cluster.ops(task)).toEqual([
        "take",
        "create",
        "create",
        "handoff",
        "validate",
        "offer",
        "acknowledge",
        "create",
        "confirm",
        "finalize",
      ]);
      expect((await cluster.events(task)).map(({ type }) => type)).toEqual([
        "TASK_TAKEN",
        "CHECKPOINT_CREATED",
        "CHECKPOINT_CREATED",
        "AGENT_HANDOFF",
        "HANDOFF_VALIDATED",
        "HANDOFF_OFFERED",
        "HANDOFF_ACKNOWLEDGED",
        "CHECKPOINT_CREATED",
        "HANDOFF_CONFIRMED",
        "CHECKPOINT_FINALIZED",
      ]);
    }, 120_000);

    test("the next phase determines the agent type, and a requested agent type has precedence", async () => {
      const byPhase = await cluster.handOff("by-phase", { next_phase: "testing" });
      const byName = await cluster.handOff("by-name", {
        next_phase: "testing",
        to_agent_type: "implementation",
      });
      expect((await offerOf(toQa, byPhase)).data).toMatchObject({ agent_type: "qa", next_phase: "testing" });
      expect((await offerOf(toImplementation, byName)).data).toMatchObject({ agent_type: "implementation" });
    }, 120_000);

    test("a checkpoint that was finalized after the request is offered in its latest version", async () => {
      await cluster.killCoordinators();
      const id = await cluster.handOff("finalized");
      const finalize = { checkpoint_id: id, status: "handed_off" };
      expect(await cluster.command("finalize", "finalized", finalize)).toMatchObject(committed);
      await cluster.startCoordinator();
      expect((await offerOf(toImplementation, id)).data.checkpoint).toMatchObject({ id, version: 2 });
    }, 120_000);

    test("one of eight agents that accept an offer together owns the task", async () => {
      const id = await cluster.handOff("contended");
      const { data } = await offerOf(toImplementation, id);
      const names = Array.from({ length: 8 }, (_, n) => `taker-${n}`);
      const answers = await Promise.all(names.map((agent) => cluster.acknowledge(data, agent)));
      const winners = names.filter((_, i) => answers[i]?.status === "committed");
      expect(winners).toHaveLength(1);
      for (const answer of answers) {
        if (answer.status === "committed") continue;
        expect(answer).toMatchObject({ error: { code: "CONFLICT", details: { accepted_by: winners[0] } } });
      }
      expect(await cluster.repository.task("default", "contended")).toMatchObject({
        owner: winners[0],
        fence: 1,
      });
      expect((await cluster.ops("contended")).filter((op) => op === "acknowledge")).toHaveLength(1);
    }, 120_000);

    test("an agent of another type or with another checkpoint is refused, and the offer stays open", async () => {
      const id = await cluster.handOff("typed");
      const { data } = await offerOf(toImplementation, id);
      const before = await cluster.ops("typed");
      expect(await cluster.acknowledge(data, "agent-q", { agent_type: "qa" })).toMatchObject({
        error: { code: "INVALID", fields: [{ path: "agent_type" }] },
      });
      const other = { checkpoint_id: "019bef72-b230-7a31-b5c4-0d6e2f9a1b02" };
      expect(await cluster.acknowledge(data, "agent-q", other)).toMatchObject({
        error: { code: "INVALID", fields: [{ path: "checkpoint_id" }] },
      });
      expect(await cluster.ops("typed")).toEqual(before);
      expect(await cluster.acknowledge(data, "agent-b")).toMatchObject(committed);
    }, 120_000);

    test("a cancelled or confirmed handoff cannot be accepted", async () => {
      const cancelled = await cluster.handOff("cancelled");
      const offer = await offerOf(toImplementation, cancelled);
      const back = { handoff_id: cancelled, reason: "one more test first" };
      expect(await cluster.command("cancel_handoff", "cancelled", back)).toMatchObject({
        ...committed,
        state: "cancelled",
      });
      expect(await cluster.acknowledge(offer.data, "agent-b")).toMatchObject({
        error: { code: "CONFLICT", details: { state: "cancelled" } },
      });
      const failed = (await cluster.events("cancelled")).at(-1);
      expect(failed).toMatchObject({
        type: "HANDOFF_FAILED",
        data: { state: "cancelled", reason: "withdrawn" },
      });
      expect((await cluster.audit("cancelled")).at(-1)).toMatchObject({
        op: "cancel_handoff",
        handoff_id: cancelled,
      });

      const confirmed = await cluster.handOff("confirmed");
      const { data } = await offerOf(toImplementation, confirmed);
      expect(await cluster.acknowledge(data, "agent-b")).toMatchObject(committed);
      await cluster.write("confirmed", { agent: "agent-b", fence: 1 });
      expect(await cluster.acknowledge(data, "agent-c")).toMatchObject({
        error: { code: "CONFLICT", details: { state: "confirmed", accepted_by: "agent-b" } },
      });
      const owner = { agent: "agent-b", fence: 1 };
      expect(
        await cluster.command("cancel_handoff", "confirmed", { handoff_id: confirmed }, owner),
      ).toMatchObject({
        error: { code: "CONFLICT" },
      });
    }, 120_000);

    test("an agent type unknown to the writer is refused, and one unknown to the coordinators alone is escalated", async () => {
      await cluster.write("unknown-type");
      const before = await cluster.ops("unknown-type");
      expect(await cluster.command("handoff", "unknown-type", { to_agent_type: "wizard" })).toMatchObject({
        error: { code: "INVALID", fields: [{ path: "to_agent_type" }] },
      });
      expect(await cluster.ops("unknown-type")).toEqual(before);
      const id = await cluster.handOff("unknown-type", { to_agent_type: "astrologer" });
      const handoff = await cluster.until(id, "escalated");
      expect(handoff.failure).toMatchObject({ reason: "agent_type_unknown" });
      expect(handoff.failure?.details).toContain("astrologer");
      await expectBlocked("unknown-type", id, { state: "escalated", reason: "agent_type_unknown" });
    }, 120_000);
  });

  /** The block reason of each handoff failure. */
  const BLOCK_REASONS: Readonly<Record<string, string>> = {
    agent_type_unknown: "agent_type_unknown",
    chain_broken: "chain_broken",
    hash_broken: "checkpoint_corrupt",
    no_agent: "no_agent",
    prompt_over_budget: "prompt_over_budget",
  };

  /** Asserts that the task is blocked, with both audit entries, both events and a critical alert. */
  async function expectBlocked(
    task: string,
    id: string,
    failure: { state: string; reason: string },
  ): Promise<void> {
    expect(await cluster.repository.task("default", task)).toMatchObject({
      state: "blocked",
      handoff_id: null,
    });
    const { tasks } = await cluster.repository.recoveries("default", { state: "blocked", limit: 100 });
    expect(tasks.map(({ task_id }) => task_id)).toContain(task);
    expect((await cluster.events(task)).slice(-2)).toMatchObject([
      { type: "HANDOFF_FAILED", data: { handoffId: id, ...failure } },
      { type: "TASK_BLOCKED", data: { taskId: task, handoffId: id, reason: BLOCK_REASONS[failure.reason] } },
    ]);
    expect((await cluster.audit(task)).slice(-2)).toMatchObject([
      { op: failure.state === "rejected" ? "reject" : "escalate", handoff_id: id, reason: failure.reason },
      { op: "block", state_to: "blocked", reason: BLOCK_REASONS[failure.reason] },
    ]);
    expect(await cluster.alerts(task, 1)).toMatchObject([
      { type: "HANDOFF_FAILED", severity: "critical", data: { handoffId: id, taskId: task, ...failure } },
    ]);
  }

  describe("a corrupt record is rejected and quarantined, and its task is blocked with an alert", () => {
    afterEach(() => cluster.killCoordinators());

    async function flip(key: Uint8Array, at = -3): Promise<void> {
      await cluster.store.transact({ label: "damage", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) => {
        const value = Buffer.from((await tx.get(key)) ?? []);
        const index = value.length + at;
        value[index] = (value[index] ?? 0) ^ 0x20;
        tx.set(key, value);
      });
    }

    test("a checkpoint whose bytes do not match its hash", async () => {
      const id = await cluster.handOff("bad-hash");
      await flip(tenantKeys("default").checkpoint("bad-hash", id));
      await cluster.startCoordinator();
      expect((await cluster.until(id, "rejected")).failure).toMatchObject({ reason: "hash_broken" });
      await expectBlocked("bad-hash", id, { state: "rejected", reason: "hash_broken" });
      expect((await cluster.events("bad-hash")).map(({ type }) => type)).toContain("CHECKPOINT_CORRUPTED");
    }, 120_000);

    test("a corrupt ancestor", async () => {
      const first = (await cluster.write("bad-parent")).checkpoint_id as string;
      await cluster.write("bad-parent");
      const id = await cluster.handOff("bad-parent");
      await flip(tenantKeys("default").checkpoint("bad-parent", first));
      await cluster.startCoordinator();
      expect((await cluster.until(id, "rejected")).failure).toMatchObject({ reason: "chain_broken" });
      await expectBlocked("bad-parent", id, { state: "rejected", reason: "chain_broken" });
    }, 120_000);

    test("a changed audit trail", async () => {
      await cluster.write("bad-trail");
      const id = await cluster.handOff("bad-trail");
      await cluster.write("bad-trail");
      // The entry of the request, between the checkpoint's entry and the newest entry.
      await flip(tenantKeys("default").audit("bad-trail", 3), -30);
      await cluster.startCoordinator();
      const handoff = await cluster.until(id, "rejected");
      expect(handoff.failure).toMatchObject({ reason: "chain_broken" });
      expect(handoff.failure?.details).toContain("audit trail");
      expect(await cluster.alerts("bad-trail", 1)).toMatchObject([{ severity: "critical" }]);
    }, 120_000);
  });

  describe("with a policy of short deadlines", () => {
    const policy = {
      defaults: { offer: { deadline_ms: 1_000, max_attempts: 2 }, first_checkpoint_ms: 1_000 },
      tenants: { default: { agent_types: { documentation: { offer: { prompt_tokens: 5 } } } } },
    };
    beforeAll(() => cluster.startCoordinator({ policy }), 120_000);
    afterEach(stopConsumers);
    afterAll(() => cluster.killCoordinators());

    test("an offer that no agent accepts is repeated, and then escalated", async () => {
      const id = await cluster.handOff("untaken", { to_agent_type: "architecture" });
      const handoff = await cluster.until(id, "escalated");
      expect(handoff).toMatchObject({ attempt: 2, failure: { reason: "no_agent" } });
      const ops = ["create", "handoff", "validate", "offer", "offer", "escalate", "block"];
      expect(await cluster.ops("untaken")).toEqual(ops);
      await expectBlocked("untaken", id, { state: "escalated", reason: "no_agent" });
      // The newest offer is still in the stream. An agent that accepts it now is notified that it is void.
      const offers = await offersTo("architecture");
      await until(() => offers.length === 1);
      expect(offers.map((offer) => offer.id)).toEqual([`${id}/2`]);
      const answer = await cluster.acknowledge((offers[0] as Offer).data, "agent-b");
      expect(answer).toMatchObject({ error: { code: "CONFLICT", details: { state: "escalated" } } });
    }, 120_000);

    test("an acknowledgement after the deadline is refused", async () => {
      await cluster.killCoordinators();
      const id = await cluster.handOff("late", { to_agent_type: "architecture" });
      // Killed after its first offer, a coordinator cannot repeat the offer at the deadline.
      const killed = await cluster.startCoordinator({ policy, killAt: "after:offer" });
      expect(await killed.ended).toBe("SIGKILL");
      const offered = await cluster.handoff(id);
      await until(() => Date.now() > Date.parse(offered.deadline ?? "") + 50);
      const offer = { handoff_id: id, task_id: "late", agent_type: "architecture" };
      const checkpoint = { id, version: 1, hash: offered.checkpoint_hash };
      const digest = offered.offer_digest ?? "";
      const answer = await cluster.acknowledge({ ...offer, checkpoint, digest }, "agent-b");
      expect(answer).toMatchObject({ error: { code: "CONFLICT", details: { deadline: offered.deadline } } });
      await cluster.startCoordinator({ policy });
      await cluster.until(id, "escalated");
    }, 120_000);

    test("a handoff lapses when the next agent writes no checkpoint", async () => {
      const offers: Json[] = [];
      await cluster.onOffer("qa", async ({ data }) => {
        if (data.task_id === "silent") offers.push(await cluster.acknowledge(data, "agent-b"));
      });
      const id = await cluster.handOff("silent", { to_agent_type: "qa" });
      expect((await cluster.until(id, "lapsed")).failure).toMatchObject({ reason: "no_first_checkpoint" });
      expect(offers[0]).toMatchObject(committed);
      expect((await cluster.events("silent")).at(-1)).toMatchObject({
        type: "HANDOFF_FAILED",
        data: { handoffId: id, state: "lapsed" },
      });
      expect((await cluster.audit("silent")).at(-1)).toMatchObject({ op: "lapse", handoff_id: id });
      expect(await cluster.alerts("silent", 1)).toMatchObject([
        { severity: "warning", data: { state: "lapsed" } },
      ]);
    }, 120_000);

    test("a budget below the minimum of a prompt is escalated", async () => {
      const id = await cluster.handOff("tight", { to_agent_type: "documentation" });
      const { failure } = await cluster.until(id, "escalated");
      expect(failure?.reason).toBe("prompt_over_budget");
      expect(failure?.details).toMatch(/at least \d+/);
      await expectBlocked("tight", id, { state: "escalated", reason: "prompt_over_budget" });
    }, 120_000);
  });
});
