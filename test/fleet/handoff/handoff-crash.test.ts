// Coordinators that run side by side, and coordinators that are killed: whoever dies, wherever, leaves a handoff that another finishes.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { HANDOFF_STATES } from "../../../shared/protocol/handoff-states.ts";
import { readHandoffCounts } from "../../../shared/records/kv/counters.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { TestCluster } from "../../harness/processes/cluster.ts";
import { seededRandom } from "../../load/workload.ts";

let bench: TestCluster;
beforeAll(async () => {
  bench = await TestCluster.open();
  for (const agentType of ["implementation", "qa"]) await bench.startAgents(agentType);
}, 120_000);
afterEach(() => bench.killCoordinators());
afterAll(() => bench?.close());

const names = (count: number, of: string): string[] => Array.from({ length: count }, (_, n) => `${of}-${n}`);

/** One owner, who confirmed; each transition made once. */
async function finished(task: string, id: string): Promise<void> {
  const handoff = await bench.until(id, "confirmed");
  const owner = bench.taken.get(id);
  expect(handoff.accepted_by).toBe(owner);
  const head = await bench.repository.task("default", task);
  expect(head).toMatchObject({ owner, fence: handoff.fence, handoff_id: null, state: "active" });
  const ops = await bench.ops(task);
  for (const op of ["handoff", "validate", "acknowledge", "confirm"]) {
    expect([task, op, ops.filter((one) => one === op).length]).toEqual([task, op, 1]);
  }
  expect(await bench.events(task)).toHaveLength(ops.length);
}

test("two coordinators carry fifty handoffs on, each step made by one of them", async () => {
  await Promise.all([bench.startCoordinator(), bench.startCoordinator()]);
  const tasks = names(50, "many");
  const ids = await Promise.all(tasks.map((task) => bench.handOff(task)));
  for (const [i, task] of tasks.entries()) {
    const id = ids[i] as string;
    await finished(task, id);
    expect((await bench.ops(task)).filter((op) => op === "offer")).toHaveLength(1);
  }
}, 180_000);

describe("a coordinator is killed", () => {
  const impatient = {
    defaults: { offer: { deadline_ms: 1_500, max_attempts: 1 }, first_checkpoint_ms: 1_500 },
  };

  /** One coordinator dies at the moment, the next one finishes. */
  async function through(moment: string, policy: Record<string, unknown> = impatient): Promise<void> {
    const dying = await bench.startCoordinator({ policy, killAt: moment });
    expect(await dying.ended).toBe("SIGKILL");
    await bench.startCoordinator({ policy });
  }

  test.each(["before:offer", "after:offer"])(
    "%s",
    async (moment) => {
      const task = `taken-${moment.replace(":", "-")}`;
      const id = await bench.handOff(task, { to_agent_type: "qa" });
      await through(moment, {});
      await bench.until(id, "confirmed");
      await finished(task, id);
    },
    120_000,
  );

  test.each(["before:escalate", "after:escalate", "publish:alert"])(
    "%s, of an offer that nobody took",
    async (moment) => {
      const task = `untaken-${moment.replace(":", "-")}`;
      const id = await bench.handOff(task, { to_agent_type: "architecture" });
      await through(moment);
      await bench.until(id, "escalated");
      const ops = ["create", "handoff", "validate", "offer", "escalate", "block"];
      expect(await bench.ops(task)).toEqual(ops);
      expect(await bench.events(task)).toHaveLength(ops.length);
      expect(await bench.alerts(task, 1)).toMatchObject([{ severity: "critical" }]);
    },
    120_000,
  );

  test.each(["before:reject", "after:reject"])(
    "%s, of a broken checkpoint",
    async (moment) => {
      const task = `broken-${moment.replace(":", "-")}`;
      const id = await bench.handOff(task);
      await bench.store.transact({ label: "damage", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) => {
        tx.set(tenantKeys("default").checkpoint(task, id), Buffer.from("rubbish"));
      });
      await through(moment);
      await bench.until(id, "rejected");
      expect(await bench.ops(task)).toEqual(["create", "handoff", "quarantine", "reject", "block"]);
      expect(await bench.alerts(task, 1)).toMatchObject([{ severity: "critical" }]);
    },
    120_000,
  );

  test.each(["before:lapse", "after:lapse"])(
    "%s, of an agent that wrote nothing",
    async (moment) => {
      const task = `silent-${moment.replace(":", "-")}`;
      await bench.onOffer(
        "documentation",
        async ({ data }) => void (await bench.acknowledge(data, "agent-b")),
      );
      const id = await bench.handOff(task, { to_agent_type: "documentation" });
      await through(moment);
      await bench.until(id, "lapsed");
      expect((await bench.ops(task)).filter((op) => op === "lapse")).toHaveLength(1);
      expect(await bench.alerts(task, 1)).toMatchObject([{ severity: "warning" }]);
    },
    120_000,
  );
});

test("through kills at any moment, every handoff ends confirmed, with one owner", async () => {
  const random = seededRandom(7);
  const tasks = names(60, "killed");
  const ids = new Map<string, string>();
  const asking = (async () => {
    for (const task of tasks) {
      ids.set(task, await bench.handOff(task));
      await sleep(random() * 60);
    }
  })();
  for (let kill = 0; kill < 6; kill += 1) {
    await bench.startCoordinator();
    await sleep(random() * 500);
    await bench.killCoordinators();
  }
  await asking;
  await bench.startCoordinator();
  for (const task of tasks) {
    const id = ids.get(task) as string;
    await finished(task, id);
  }
}, 240_000);

test("what is counted is what there is: none is open any more", async () => {
  const counts = await bench.store.read({ label: "counts", deadlineMs: 5_000 }, readHandoffCounts);
  const { handoffs } = await bench.repository.handoffs("default", { limit: 200 });
  const there = (state: string) => handoffs.filter((one) => one.state === state).length;
  expect(counts).toEqual(Object.fromEntries(HANDOFF_STATES.map((state) => [state, there(state)])));
  expect(handoffs.filter(({ ended_at }) => ended_at === null)).toEqual([]);
  expect(await bench.repository.coordination.dueHandoffs(Date.now() + 86_400_000, 10)).toEqual([]);
});
