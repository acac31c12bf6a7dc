// Shredding: two persons, the order of the checks, what goes and what stays, and a crash at any point.

import { afterEach, describe, expect, test } from "vitest";
import { DEFAULT_POLICIES, type Policies, policySchema } from "../../../../shared/protocol/policy.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { SHREDDED } from "../../../../shared/records/retention/shred/content.ts";
import { stepLateMessages } from "../../../../shared/records/retention/shred/late-messages.ts";
import { type ShredSweep, stepShredding } from "../../../../shared/records/retention/shred/shred-sweep.ts";
import { StoreError } from "../../../../shared/store/store.ts";
import { familyOf } from "../../../harness/records/edits.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { dump } from "../../../harness/records/rows.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";

const DAY_MS = 86_400_000;
const [OLGA, PAVEL] = ["human=olga", "human=pavel"];
/** In no other text of the tests. */
const CANARY = "quetzalcoatlus";

describe.each(ENGINES)("shredding on %s", (engine) => {
  const opened: TestTasks[] = [];
  afterEach(async () => {
    for (const place of opened.splice(0)) await place.close();
  });

  async function placeWith(policies: Policies = DEFAULT_POLICIES): Promise<TestTasks> {
    const place = await TestTasks.open(engine, policies);
    opened.push(place);
    return place;
  }

  /** A task with checkpoints, a handoff and a mission, each with the canary, that no agent owns. */
  async function written(place: TestTasks, count = 3): Promise<string> {
    const task = place.fresh();
    await send(place.repository, "mission_start", { title: CANARY }, { task });
    await send(place.repository, "sortie_add", { sorties: [{ title: CANARY }] }, { task });
    await send(place.repository, "lock_acquire", { path: "a.ts", purpose: CANARY }, { task });
    await send(
      place.repository,
      "message_send",
      { to: ["agent-2"], subject: CANARY, body: CANARY },
      { task },
    );
    for (let n = 0; n < count; n += 1) {
      const checkpoint = input({ current_focus: `${CANARY} ${"x".repeat(n === 0 ? 90_000 : 10)}` });
      const { checkpoint_id } = await create(place.repository, { task, checkpoint });
      const patch = { execution_state: { goal: CANARY } };
      await send(place.repository, "update", { checkpoint_id, patch }, { task });
    }
    await send(place.repository, "handoff", { reason: CANARY }, { task });
    await send(place.repository, "cancel_handoff", { reason: CANARY }, { task });
    return task;
  }

  const act = (place: TestTasks, task: string, op: string, body: object = {}, agent = OLGA) =>
    send(place.repository, op as "shred_request", { ...body }, { task, agent: agent as string });
  const request = (place: TestTasks, task: string, agent = OLGA) =>
    act(place, task, "shred_request", { reason: "erasure", case: "DSR-42" }, agent);
  async function approve(place: TestTasks, task: string, agent = PAVEL) {
    const { shred } = await place.head(task);
    return act(place, task, "shred_approve", { request_seq: shred?.request_seq ?? 1 }, agent);
  }
  const sweep = (place: TestTasks, given: Partial<ShredSweep> = {}) =>
    stepShredding({ ...place.sweepParts(), ...given });

  test("all content goes; trail, hashes and tombstones stay and verify", async () => {
    const place = await placeWith();
    const [task, other] = [await written(place, 20), place.fresh()];
    await create(place.repository, { task: other, checkpoint: input() });
    const ids = (await place.trail(task)).flatMap(({ op, checkpoint_id }) =>
      op === "create" ? [String(checkpoint_id)] : [],
    );
    await request(place, task);
    await approve(place, task);
    expect(await refusal(create(place.repository, { task, checkpoint: input() }))).toMatchObject({
      code: "CONFLICT",
      message: "the task is being shredded",
    });
    const fork = send(place.repository, "fork", { source_task_id: task }, { task: place.fresh() });
    expect(await refusal(fork)).toMatchObject({ code: "CONFLICT" });
    expect(await sweep(place)).toMatchObject({ removed: 20, ended: [{ task }], kept: [], failed: [] });
    const rows = await dump(place.store);
    const holding = rows.filter(({ value }) => Buffer.from(value).includes(CANARY));
    // An event or an answer that names the reason of a handoff leaves within seconds, or is forgotten.
    expect([...new Set(holding.map(familyOf))].filter((family) => !/outbox|idem/.test(family))).toEqual([]);
    const { removed = [], checkpoints } = await place.repository.history("default", {
      ...{ task_id: task, limit: 200, order: "oldest" },
    });
    expect(checkpoints).toEqual([]);
    expect(removed.map(({ checkpoint_id, reason }) => [checkpoint_id, reason])).toEqual(
      ids.map((id) => [id, "shredded"]),
    );
    const trail = await place.trail(task);
    expect(trail.filter(({ op }) => String(op).startsWith("shred_"))).toMatchObject([
      { op: "shred_request", actor: { id: OLGA, type: "human" }, reason: "erasure", case: "DSR-42" },
      { op: "shred_approve", actor: { id: PAVEL, type: "human" } },
      { op: "shred_end", actor: { id: "writer", type: "service" } },
    ]);
    expect(await place.head(task)).toMatchObject({ shred: { state: "shredded", approved_by: PAVEL } });
    const { stored, replayed } = await place.replayed(task);
    expect(stored).toEqual(replayed);
    expect((await scrub({ store: place.store, repository: place.repository })).findings).toEqual([]);
    for (const op of ["take", "mission_checkpoint"] as const)
      expect(await refusal(send(place.repository, op, {}, { task }))).toMatchObject({
        message: "the task was shredded",
      });
    expect((await place.head(other)).latest_id).not.toBeNull();
  });

  test("a second request is refused with the first one", async () => {
    const place = await placeWith();
    const task = await written(place, 1);
    await request(place, task);
    expect((await refusal(request(place, task))).toBody()).toMatchObject({
      code: "CONFLICT",
      details: { task_id: task, shred: "requested", requested_by: OLGA, expires_at: expect.any(String) },
    });
    await approve(place, task);
    expect((await refusal(request(place, task))).toBody().details).toEqual({
      task_id: task,
      shred: "approved",
    });
  });

  test("the same person in other letters is no second person", async () => {
    const place = await placeWith();
    const task = await written(place, 1);
    await request(place, task);
    expect(await refusal(approve(place, task, "human=Olga"))).toMatchObject({ code: "FORBIDDEN" });
  });

  test.each(["order", "checkpoint"] as const)(
    "a damaged %s row stops a shredding before anything is gone",
    async (kind) => {
      const place = await placeWith();
      const task = await written(place, 2);
      const keys = tenantKeys("default");
      const key =
        kind === "order" ? keys.order(task, 1) : keys.checkpoint(task, (await place.head(task)).latest_id!);
      const sound = await place.store.read({ label: "test", deadlineMs: 5_000 }, (reader) => reader.get(key));
      const write = (value: Uint8Array) =>
        place.store.transact({ label: "test", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) =>
          tx.set(key, value),
        );
      const damaged = Uint8Array.from(sound!);
      damaged[damaged.length - 3]! ^= 1;
      await write(damaged);
      expect(await refusal(request(place, task))).toMatchObject({ code: "CORRUPT" });
      await write(sound!);
      await request(place, task);
      await approve(place, task);
      await write(damaged);
      expect(await sweep(place)).toMatchObject({ removed: 0, ended: [], failed: [{ task }] });
      await write(sound!);
      expect(await sweep(place)).toMatchObject({ removed: 2, ended: [{ task }], failed: [] });
    },
  );

  test("only two different persons can, in seven days, and only what was requested", async () => {
    const place = await placeWith();
    const task = await written(place);
    expect(await refusal(request(place, task, "agent-1"))).toMatchObject({ code: "FORBIDDEN" });
    expect(await refusal(approve(place, task))).toMatchObject({ code: "CONFLICT" });
    await request(place, task);
    expect(await refusal(request(place, task, PAVEL))).toMatchObject({ code: "CONFLICT" });
    expect(await refusal(approve(place, task, OLGA))).toMatchObject({ code: "FORBIDDEN" });
    expect(await refusal(approve(place, task, "agent-1"))).toMatchObject({ code: "FORBIDDEN" });
    expect(await refusal(act(place, task, "shred_approve", { request_seq: 1 }, PAVEL))).toMatchObject({
      code: "CONFLICT",
    });
    place.now += 7 * DAY_MS;
    expect(await refusal(approve(place, task))).toMatchObject({ message: /expired/ });
    const { shred } = await request(place, task, PAVEL);
    await act(place, task, "shred_cancel", { request_seq: shred?.request_seq });
    expect((await place.head(task)).shred).toBeUndefined();
    expect(await refusal(approve(place, task, OLGA))).toMatchObject({ code: "CONFLICT" });
    expect(await sweep(place)).toMatchObject({ removed: 0, ended: [] });
    const { stored, replayed } = await place.replayed(task);
    expect(stored).toEqual(replayed);
  });

  test("a hold, a promise and an owner are checked at the request, the approval and the removal", async () => {
    const floor = policySchema.parse({ retention_floor: "P30D" });
    const place = await placeWith();
    const task = await written(place);
    const hold = (body: object) => act(place, task, "hold", body);
    await hold({ hold: "case-1" });
    expect(await refusal(request(place, task))).toMatchObject({ details: { reason: "held" } });
    await hold({ release: "case-1" });
    await send(place.repository, "take", {}, { task });
    expect(await refusal(request(place, task))).toMatchObject({ details: { owner: "agent-1" } });
    await send(place.repository, "release", {}, { task, fence: (await place.head(task)).fence });
    await request(place, task);
    await hold({ hold: "case-2" });
    expect(await refusal(approve(place, task))).toMatchObject({ details: { reason: "held" } });
    await hold({ release: "case-2" });
    await approve(place, task);
    await hold({ hold: "case-3" });
    expect(await sweep(place)).toMatchObject({ removed: 0, kept: [{ task }] });
    await hold({ release: "case-3" });
    expect(await sweep(place, { policies: floor })).toMatchObject({ removed: 0, kept: [{ task }] });
    expect(await sweep(place)).toMatchObject({ removed: 3, ended: [{ task }] });
    const kept = await placeWith(floor);
    const promised = kept.fresh();
    const { checkpoint_id } = await create(kept.repository, { task: promised, checkpoint: input() });
    await finalize(kept.repository, checkpoint_id, "failed", { task: promised });
    expect(await refusal(request(kept, promised))).toMatchObject({
      details: { reason: "floor", floor: "P30D", checkpoint_id },
    });
    kept.now += 31 * DAY_MS;
    expect(await request(kept, promised)).toMatchObject({ shred: { state: "requested" } });
  });

  test.each([
    ["before", 1],
    ["after", 1],
    ["before", 2],
    ["after", 2],
  ] as const)(
    "a process that ends %s transaction %i leaves the rest to the next one",
    async (when, number) => {
      const place = await placeWith();
      const task = await written(place, 20);
      await request(place, task);
      await approve(place, task);
      let made = 0;
      const { store } = place;
      const ending = wrappedStore(store, async (options, body) => {
        made += 1;
        if (made < number) return store.transact(options, body);
        if (made === number && when === "after") await store.transact(options, body);
        throw new StoreError("closed", "the process ends here");
      });
      await expect(sweep(place, { store: ending })).rejects.toThrow("the process ends here");
      await sweep(place);
      const removals = (await place.trail(task)).filter(({ op }) => op === "remove");
      expect(new Set(removals.map(({ checkpoint_id }) => checkpoint_id)).size).toBe(20);
      expect(removals).toHaveLength(20);
      expect((await place.head(task)).shred?.state).toBe("shredded");
      expect((await scrub({ store: place.store, repository: place.repository })).findings).toEqual([]);
    },
  );

  test("while the bus is away the shredding has no end, and a held task keeps its messages", async () => {
    const place = await placeWith();
    const [task, held] = [await written(place, 2), await written(place, 1)];
    for (const one of [task, held]) {
      await request(place, one);
      await approve(place, one);
    }
    await act(place, held, "hold", { hold: "case-7" });
    const away = async () => {
      throw new Error("the bus is away");
    };
    expect(await sweep(place, { eraseMessages: away })).toMatchObject({ ended: [], failed: [{ task }] });
    expect((await place.head(task)).shred?.state).toBe("approved");
    const erased: object[] = [];
    const eraseMessages = async (one: object) => void erased.push(one);
    expect(await sweep(place, { eraseMessages })).toMatchObject({ ended: [{ task }], failed: [] });
    expect(erased).toEqual([{ tenant: "default", task }]);
  });

  test("messages are erased again a minute after the end, also when the bus is away or a process ends in between", async () => {
    const place = await placeWith();
    const task = await written(place, 1);
    await request(place, task);
    await approve(place, task);
    const acknowledgement = tenantKeys("default").alertAck(`default/${task}/7`);
    const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
    const erased: string[] = [];
    const eraseMessages = async (one: { readonly task: string }) => void erased.push(one.task);
    const late = (given: Partial<ShredSweep> = {}) =>
      stepLateMessages({ ...place.sweepParts(), eraseMessages, ...given });
    expect(await sweep(place, { eraseMessages })).toMatchObject({ ended: [{ task }] });
    expect(erased.splice(0)).toEqual([task]);
    await place.store.transact(options, async (tx) => tx.set(acknowledgement, Buffer.from(CANARY)));
    place.now += 59_999;
    expect(await late()).toEqual({ failed: [], next: null });
    expect(erased).toEqual([]);
    place.now += 1;
    const away = async () => {
      throw new Error("the bus is away");
    };
    expect(await late({ eraseMessages: away })).toMatchObject({ failed: [{ task }] });
    const ending = wrappedStore(place.store, async () => {
      throw new StoreError("closed", "the process ends here");
    });
    await expect(late({ store: ending })).rejects.toThrow("the process ends here");
    expect(erased.splice(0)).toEqual([task]);
    expect(await late()).toEqual({ failed: [], next: null });
    expect(erased.splice(0)).toEqual([task]);
    const left = await place.store.read(options, (reader) => reader.get(acknowledgement));
    expect(left).toBeUndefined();
    // Once only.
    place.now += DAY_MS;
    await late();
    expect(erased).toEqual([]);
  });

  test("the list has each state, in pages", async () => {
    const place = await placeWith();
    const tasks = [];
    for (let n = 0; n < 3; n += 1) tasks.push(await written(place, 1));
    const [first, second, third] = tasks as [string, string, string];
    for (const task of tasks) await request(place, task);
    await approve(place, second);
    await sweep(place);
    await approve(place, third);
    const found: [string, string][] = [];
    for (let cursor: string | undefined; ; ) {
      const query = { limit: 1, ...(cursor !== undefined && { cursor }) };
      const page = await place.repository.erasure.shreds("default", query);
      found.push(...page.shreds.map((one): [string, string] => [one.task_id, one.state]));
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    expect(found).toEqual([
      [first, "requested"],
      [third, "approved"],
      [second, "shredded"],
    ]);
    expect((await place.repository.erasure.shreds("other", { limit: 10 })).shreds).toEqual([]);
  });
});

test("each key space is removed, or has a reason to stay", () => {
  for (const [space, what] of Object.entries(SHREDDED))
    expect(what, space).toMatch(/removed|stays|forgotten|not of/);
});
