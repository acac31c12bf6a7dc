// The retention floor of a tenant: no checkpoint goes before it, of any class and at any request.

import { afterEach, describe, expect, test } from "vitest";
import { type Policies, policySchema, retentionFloorOf } from "../../../../shared/protocol/policy.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const DAY_MS = 86_400_000;
const OPERATOR = "human=olga";

test("a tenant's floor replaces that of the fleet, and no agent type has one", () => {
  const policies = policySchema.parse({
    retention_floor: "P6Y",
    tenants: { clinic: { retention_floor: "regulated" }, toys: { retention_floor: "working" }, plain: {} },
  });
  expect(
    ["clinic", "toys", "plain", "__proto__"].map((tenant) => retentionFloorOf(policies, tenant)),
  ).toEqual(["regulated", "working", "P6Y", "P6Y"]);
  expect(retentionFloorOf(policySchema.parse({}), "default")).toBe("working");
  const typed = { tenants: { a: { agent_types: { qa: { retention_floor: "P1D" } } } } };
  expect(policySchema.safeParse(typed).success).toBe(false);
  expect(policySchema.safeParse({ retention_floor: "P5X" }).success).toBe(false);
});

describe.each(ENGINES)("the retention floor on %s", (engine) => {
  const opened: TestTasks[] = [];
  afterEach(async () => {
    for (const place of opened.splice(0)) await place.close();
  });

  async function placeWith(settings: object): Promise<TestTasks> {
    const place = await TestTasks.open(engine, policySchema.parse(settings));
    opened.push(place);
    return place;
  }

  async function written(place: TestTasks, task: string, count: number, policy?: string): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1) {
      const named = policy === undefined ? {} : { compliance: { retention_policy: policy } };
      const { checkpoint_id } = await create(place.repository, {
        task,
        checkpoint: { ...input(), ...named },
      });
      ids.push(checkpoint_id);
    }
    return ids;
  }

  const remove = (place: TestTasks, task: string, id: string, more: object = {}) =>
    send(place.repository, "remove", { checkpoint_id: id, ...more }, { task, agent: OPERATOR });

  test("nothing goes before it: neither by age, count or completion, nor at an operator's request", async () => {
    const place = await placeWith({
      retention_floor: "P30D",
      defaults: { retention: { days: 1, keep: 1, max: 2, completed_days: 1 } },
    });
    const [task, short, done] = [place.fresh(), place.fresh(), place.fresh()];
    const [first] = await written(place, task, 5);
    const [brief] = await written(place, short, 3, "P2D");
    await written(place, done, 2);
    const last = await create(place.repository, { task: done, checkpoint: input({ phase: "complete" }) });
    await finalize(place.repository, last.checkpoint_id, "succeeded", { task: done });
    place.now += 29.9 * DAY_MS;
    expect(await place.retain()).toBe(0);
    for (const [of, id] of [
      [task, first],
      [short, brief],
      [done, last.checkpoint_id],
    ] as const) {
      const { compliance, metadata } = await place.repository.get("default", id!);
      expect(compliance.retention_floor).toBe("P30D");
      const until = new Date(Date.parse(metadata.committed_at) + 30 * DAY_MS).toISOString();
      const kept = { code: "CONFLICT", details: { reason: "floor", floor: "P30D", until } };
      expect(await refusal(remove(place, of, id!, { keep: 1 }))).toMatchObject(kept);
      const pruned = { older_than_days: 1, keep: 1, if_due: true };
      expect(await refusal(remove(place, of, id!, pruned))).toMatchObject(kept);
    }
    const prunable = { older_than_days: 1, keep: 1, limit: 100 };
    expect((await place.repository.prunable("default", prunable)).checkpoints).toEqual([]);
    place.now += 0.2 * DAY_MS;
    // Of a task that has not ended, the newest two stay: a recovery would continue from them.
    expect(await place.retain()).toBe(3 + 1 + 3);
    expect((await scrub({ store: place.store, repository: place.repository })).findings).toEqual([]);
  });

  test("a longer class is kept for its own time", async () => {
    const place = await placeWith({ retention_floor: "P30D" });
    const task = place.fresh();
    const [first] = await written(place, task, 5, "P60D");
    place.now += 31 * DAY_MS;
    expect(await refusal(remove(place, task, first!))).toMatchObject({ details: { reason: "promised" } });
    place.now += 30 * DAY_MS;
    expect(await place.retain()).toBe(2);
  });

  test("checkpoints of before the floor are kept by it too", async () => {
    const place = await placeWith({});
    const task = place.fresh();
    const [first] = await written(place, task, 5);
    const floored = { policies: policySchema.parse({ retention_floor: "P90D" }) };
    place.now += 60 * DAY_MS;
    expect(await place.retain(floored)).toBe(0);
    expect((await place.repository.get("default", first!)).compliance.retention_floor).toBeUndefined();
    expect(await place.retain()).toBe(2);
  });

  test("a floor that is lowered later does not shorten what was committed under it", async () => {
    const place = await placeWith({ retention_floor: "P60D" });
    const lowered: { policies: Policies } = { policies: policySchema.parse({ retention_floor: "P1D" }) };
    const task = place.fresh();
    const [draft, final] = await written(place, task, 5);
    await finalize(place.repository, final!, "handed_off", { task });
    const { compliance } = await place.repository.get("default", final!);
    expect(compliance).toMatchObject({ retention_policy: "working", retention_floor: "P60D" });
    expect(compliance.retain_until).toBe(new Date(place.now + 60 * DAY_MS).toISOString());
    place.now += 59 * DAY_MS;
    expect(await place.retain(lowered)).toBe(0);
    expect(await refusal(remove(place, task, draft!))).toMatchObject({ details: { reason: "floor" } });
    place.now += 2 * DAY_MS;
    expect(await place.retain(lowered)).toBe(2);
  });

  test("an agent cannot set it, and a task's policy below it is refused", async () => {
    const place = await placeWith({ retention_floor: "P30D" });
    const task = place.fresh();
    const forged = { ...input(), compliance: { retention_policy: "short", retention_floor: "P1D" } };
    const { checkpoint_id } = await create(place.repository, { task, checkpoint: forged });
    expect((await place.repository.get("default", checkpoint_id)).compliance.retention_floor).toBe("P30D");
    const patch = { compliance: { retention_floor: null } };
    expect(await refusal(send(place.repository, "update", { checkpoint_id, patch }, { task }))).toMatchObject(
      { code: "INVALID", fields: [{ path: "patch.compliance.retention_floor" }] },
    );
    const retain = (policy: string | null) =>
      send(place.repository, "retain", { retention_policy: policy }, { task, agent: OPERATOR });
    expect(await refusal(retain("short"))).toMatchObject({
      code: "INVALID",
      fields: [{ path: "retention_policy", expected: "at least P30D, the retention floor of the tenant" }],
    });
    expect(await retain("P31D")).toMatchObject({ retention_policy: "P31D" });
    expect(await retain(null)).toMatchObject({ retention_policy: null });
  });
});
