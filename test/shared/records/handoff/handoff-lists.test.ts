// Lists of handoffs: their order, pages and filters, and what they do with a corrupt record.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Tx } from "../../../../shared/store/store.ts";
import { initiate, refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;

describe.each(ENGINES)("lists of handoffs on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  test("lists are newest first, by task or state, in pages", async () => {
    const task = place.fresh();
    const ids: string[] = [];
    await create(place.repository, { task, tenant: "lists" });
    for (let i = 0; i < 7; i += 1) {
      const { handoff_id } = await initiate(place.repository, { task, tenant: "lists" });
      ids.unshift(handoff_id);
      if (i < 6) await send(place.repository, "cancel_handoff", {}, { task, tenant: "lists" });
    }
    for (const query of [{ task_id: task }, {}]) {
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await place.repository.handoffs("lists", { ...query, limit: 3, cursor });
        expect(page.handoffs.length).toBeLessThanOrEqual(3);
        found.push(...page.handoffs.map(({ handoff_id }) => handoff_id));
        cursor = page.cursor;
      } while (cursor !== undefined);
      expect(found).toEqual(ids);
    }
    const open = await place.repository.handoffs("lists", { state: "requested", limit: 5 });
    expect(open.handoffs.map(({ handoff_id }) => handoff_id)).toEqual(ids.slice(0, 1));
    expect(await place.repository.handoff("lists", { task_id: task })).toMatchObject({ handoff_id: ids[0] });
    expect((await refusal(place.repository.handoff("lists", { handoff_id: uuidv7() }))).code).toBe(
      "NOT_FOUND",
    );
    const foreign = place.repository.handoffs("lists", { limit: 1, cursor: "eA" });
    expect(await refusal(foreign)).toMatchObject({ code: "INVALID", fields: [{ path: "cursor" }] });
  });

  describe("with a corrupt record", () => {
    const keys = tenantKeys("damaged");
    const edit = (change: (tx: Tx) => Promise<unknown>) => place.store.transact(WRITE, change);
    const idsOf = async (query: { task_id?: string }) => {
      const { handoffs, corrupt } = await place.repository.handoffs("damaged", { ...query, limit: 100 });
      return { sound: handoffs.map(({ handoff_id }) => handoff_id), corrupt };
    };

    async function twoHandoffs(): Promise<{ task: string; older: string; newer: string }> {
      const task = place.fresh();
      const of = { task, tenant: "damaged" };
      await create(place.repository, of);
      const { handoff_id: older } = await initiate(place.repository, of);
      await send(place.repository, "cancel_handoff", {}, of);
      const { handoff_id: newer } = await initiate(place.repository, of);
      return { task, older, newer };
    }

    test("name it, and contain the others", async () => {
      const { task, older, newer } = await twoHandoffs();
      await edit(async (tx) => tx.set(keys.handoff(older), Buffer.from("damaged")));
      expect(await idsOf({ task_id: task })).toEqual({ sound: [newer], corrupt: [older] });
      const all = await idsOf({});
      expect(all.corrupt).toContain(older);
      expect(all.sound).toContain(newer);
      expect(await refusal(place.repository.handoff("damaged", { handoff_id: older }))).toMatchObject({
        code: "CORRUPT",
      });
    });

    test("name one that its task does not list", async () => {
      const { task, older } = await twoHandoffs();
      await edit(async (tx) => tx.clear(keys.taskHandoff(task, older)));
      expect((await idsOf({})).corrupt).toContain(older);
    });

    test("name one that another task lists", async () => {
      const { older } = await twoHandoffs();
      const { task: other, newer } = await twoHandoffs();
      await edit(async (tx) => tx.set(keys.taskHandoff(other, older), new Uint8Array(0)));
      const listed = await idsOf({ task_id: other });
      expect(listed.corrupt).toEqual([older]);
      expect(listed.sound).toContain(newer);
    });
  });
});
