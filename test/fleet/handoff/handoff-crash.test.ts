// Several coordinators, and coordinators that are killed: another coordinator finishes every handoff of a killed one.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { HANDOFF_STATES } from "../../../shared/protocol/handoff-states.ts";
import { readHandoffCounts } from "../../../shared/records/kv/counters.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { CLUSTER_ENGINES, TestCluster } from "../../harness/processes/cluster.ts";
import { seededRandom } from "../../load/workload.ts";

describe.each(CLUSTER_ENGINES)("on %s", (engine) => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await TestCluster.open(engine);
    for (const agentType of ["implementation", "qa"]) await cluster.startAgents(agentType);
  }, 120_000);
  afterEach(() => cluster.killCoordinators());
  afterAll(() => cluster?.close());

  const names = (count: number, of: string): string[] =>
    Array.from({ length: count }, (_, n) => `${of}-${n}`);

  /** Asserts that the handoff has one owner, which confirmed it, and that each transition was made once. */
  async function finished(task: string, id: string): Promise<void> {
    const handoff = await cluster.until(id, "confirmed");
    const owner = cluster.taken.get(id);
    expect(handoff.accepted_by).toBe(owner);
    const head = await cluster.repository.task("default", task);
    expect(head).toMatchObject({ owner, fence: handoff.fence, handoff_id: null, state: "active" });
    const ops = await cluster.ops(task);
    for (const op of ["handoff", "validate", "acknowledge", "confirm"]) {
      expect([task, op, ops.filter((one) => one === op).length]).toEqual([task, op, 1]);
    }
    expect(await cluster.events(task)).toHaveLength(ops.length);
  }

  test("two coordinators make each step of fifty handoffs once", async () => {
    await Promise.all([cluster.startCoordinator(), cluster.startCoordinator()]);
    const tasks = names(50, "many");
    const ids = await Promise.all(tasks.map((task) => cluster.handOff(task)));
    for (const [i, task] of tasks.entries()) {
      const id = ids[i] as string;
      await finished(task, id);
      expect((await cluster.ops(task)).filter((op) => op === "offer")).toHaveLength(1);
    }
  }, 180_000);

  describe("a coordinator is killed", () => {
    const shortDeadlines = {
      defaults: { offer: { deadline_ms: 1_500, max_attempts: 1 }, first_checkpoint_ms: 1_500 },
    };

    /** Starts a coordinator that is killed at the kill point, and then another one. */
    async function killAt(point: string, policy: Record<string, unknown> = shortDeadlines): Promise<void> {
      const killed = await cluster.startCoordinator({ policy, killAt: point });
      expect(await killed.ended).toBe("SIGKILL");
      await cluster.startCoordinator({ policy });
    }

    test.each(["before:offer", "after:offer"])(
      "%s",
      async (point) => {
        const task = `taken-${point.replace(":", "-")}`;
        const id = await cluster.handOff(task, { to_agent_type: "qa" });
        await killAt(point, {});
        await cluster.until(id, "confirmed");
        await finished(task, id);
      },
      120_000,
    );

    test.each(["before:escalate", "after:escalate", "publish:alert"])(
      "%s, for an offer that no agent accepted",
      async (point) => {
        const task = `untaken-${point.replace(":", "-")}`;
        const id = await cluster.handOff(task, { to_agent_type: "architecture" });
        await killAt(point);
        await cluster.until(id, "escalated");
        const ops = ["create", "handoff", "validate", "offer", "escalate", "block"];
        expect(await cluster.ops(task)).toEqual(ops);
        expect(await cluster.events(task)).toHaveLength(ops.length);
        expect(await cluster.alerts(task, 1)).toMatchObject([{ severity: "critical" }]);
      },
      120_000,
    );

    test.each(["before:reject", "after:reject"])(
      "%s, for a corrupt checkpoint",
      async (point) => {
        const task = `broken-${point.replace(":", "-")}`;
        const id = await cluster.handOff(task);
        await cluster.store.transact(
          { label: "damage", deadlineMs: 5_000, onUnknown: "safe" },
          async (tx) => {
            tx.set(tenantKeys("default").checkpoint(task, id), Buffer.from("rubbish"));
          },
        );
        await killAt(point);
        await cluster.until(id, "rejected");
        expect(await cluster.ops(task)).toEqual(["create", "handoff", "quarantine", "reject", "block"]);
        expect(await cluster.alerts(task, 1)).toMatchObject([{ severity: "critical" }]);
      },
      120_000,
    );

    test.each(["before:lapse", "after:lapse"])(
      "%s, for an agent that wrote no checkpoint",
      async (point) => {
        const task = `silent-${point.replace(":", "-")}`;
        await cluster.onOffer(
          "documentation",
          async ({ data }) => void (await cluster.acknowledge(data, "agent-b")),
        );
        const id = await cluster.handOff(task, { to_agent_type: "documentation" });
        await killAt(point);
        await cluster.until(id, "lapsed");
        expect((await cluster.ops(task)).filter((op) => op === "lapse")).toHaveLength(1);
        expect(await cluster.alerts(task, 1)).toMatchObject([{ severity: "warning" }]);
      },
      120_000,
    );
  });

  test("every handoff is confirmed with one owner when coordinators are killed at random moments", async () => {
    const random = seededRandom(7);
    const tasks = names(60, "killed");
    const ids = new Map<string, string>();
    const requests = (async () => {
      for (const task of tasks) {
        ids.set(task, await cluster.handOff(task));
        await sleep(random() * 60);
      }
    })();
    for (let kill = 0; kill < 6; kill += 1) {
      await cluster.startCoordinator();
      await sleep(random() * 500);
      await cluster.killCoordinators();
    }
    await requests;
    await cluster.startCoordinator();
    for (const task of tasks) {
      const id = ids.get(task) as string;
      await finished(task, id);
    }
  }, 240_000);

  test("the counts match the stored handoffs, and none is open", async () => {
    const counts = await cluster.store.read({ label: "counts", deadlineMs: 5_000 }, readHandoffCounts);
    const { handoffs } = await cluster.repository.handoffs("default", { limit: 200 });
    const stored = (state: string) => handoffs.filter((one) => one.state === state).length;
    expect(counts).toEqual(Object.fromEntries(HANDOFF_STATES.map((state) => [state, stored(state)])));
    expect(handoffs.filter(({ ended_at }) => ended_at === null)).toEqual([]);
    expect(await cluster.repository.handoffActions.dueHandoffs(Date.now() + 86_400_000, 10)).toEqual([]);
  });
});
