// The operators' view of recoveries: the open ones, and the preview of a recovery point.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../../shared/protocol/policy.ts";
import { RECOVERING_STATES } from "../../../../shared/protocol/recovery-states.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { SECRETS } from "../../protocol/secrets.ts";
import { flip } from "../search/corpus.ts";

const SILENCE_MS = DEFAULT_POLICY.recovery.silence_ms;

describe.each(ENGINES)("recovery queries on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  const list = (query = {}) => place.repository.recoveries("default", { limit: 20, ...query });
  const names = (page: Awaited<ReturnType<typeof list>>) => page.tasks.map(({ task_id }) => task_id);

  test("open recoveries are listed, by state or all, in pages", async () => {
    const waiting = await place.owned();
    await place.fail(waiting);
    const attempted = await place.attempted();
    const resumed = await place.resumed();
    const blocked = await place.owned();
    await place.fail(blocked, { class: "unrecoverable" });
    const done = await place.resumed();
    await place.write(done, "agent-2", { completed: 2 });
    await place.owned();

    expect(names(await list())).toEqual([waiting, attempted, resumed, blocked]);
    const byState = { waiting, attempted, resumed, blocked };
    for (const state of RECOVERING_STATES) {
      const page = await list({ state });
      expect(names(page)).toEqual([byState[state]]);
      expect(page).not.toHaveProperty("cursor");
    }
    const [first] = (await list({ state: "blocked" })).tasks;
    expect(first?.recovery).toMatchObject({ failure: { class: "unrecoverable", agent_id: "agent-1" } });

    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await list({ limit: 3, ...(cursor && { cursor }) });
      seen.push(...names(page));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(seen).toEqual([waiting, attempted, resumed, blocked]);
    const other = { state: "waiting", cursor: (await list({ limit: 1 })).cursor };
    expect((await refusal(list(other))).fields[0]?.path).toBe("cursor");
  });

  test("the texts of agents and operators are shown without their secrets", async () => {
    const secret = SECRETS["URL with a password"] as string;
    const task = await place.owned();
    await place.fail(task, { class: "unrecoverable", details: `cannot connect to ${secret}` });
    const details = expect.stringMatching(/^cannot connect to \S+\[redacted: password\]@/);
    const recovery = { failure: { details } };
    expect(await place.head(task)).toMatchObject({ recovery, blocked: { details } });
    expect((await list()).tasks).toMatchObject([{ recovery, blocked: { details } }]);

    await send(place.repository, "recover", { reason: `now ${secret} works` }, { task, agent: "operator" });
    const reason = expect.stringMatching(/^now \S+\[redacted: password\]@\S+ works$/);
    const { task: audited } = await place.repository.audit("default", {
      task_id: task,
      from_seq: 1,
      limit: 1,
    });
    expect(audited).toMatchObject({ recovery: { ...recovery, choice: { reason } } });
    expect((await list()).tasks).toMatchObject([{ recovery: { choice: { reason } } }]);
  });

  test("a list shows only its own tenant", async () => {
    await place.attempted();
    expect(await place.repository.recoveries("acme", { limit: 20 })).toEqual({ tasks: [] });
  });

  test("a preview names the recovery point, the corrupt checkpoints, now quarantined, and the owner", async () => {
    const task = await place.owned(3);
    const { latest_id } = await place.head(task);
    await flip(place.store, task, latest_id as string);
    const { point } = await place.repository.recoveryPoint("default", { task_id: task, force: false });
    expect(point).toMatchObject({
      checkpoint: { metadata: { seq: 2 } },
      reason: null,
      passed_over: [{ checkpoint_id: latest_id }],
      owner: {
        agent_id: "agent-1",
        fence: 1,
        alive_until: new Date(place.now + SILENCE_MS).toISOString(),
      },
    });
    expect(place.corrupt).toMatchObject([{ checkpoint_id: latest_id }]);
    place.now += SILENCE_MS + 1;
    const { point: later } = await place.repository.recoveryPoint("default", { task_id: task, force: false });
    // The quarantine just now counts as a sign of life, as the store cannot tell it from a write of the
    // agent.
    expect(later.owner).toMatchObject({ agent_id: "agent-1", alive_until: null });
  });

  test("a preview without a recovery point gives the reason", async () => {
    const task = place.fresh();
    await send(place.repository, "take", {}, { task });
    const { point } = await place.repository.recoveryPoint("default", { task_id: task, force: false });
    expect(point).toMatchObject({
      checkpoint: null,
      reason: "no_checkpoint",
      details: "nothing was written yet",
      owner: { agent_id: "agent-1" },
    });
    const nowhere = await place.repository.recoveryPoint("default", { task_id: "nowhere", force: false });
    expect(nowhere.point).toMatchObject({ checkpoint: null, owner: null });
  });

  test("a preview changes nothing", async () => {
    const task = await place.spent();
    const before = await place.head(task);
    await place.repository.recoveryPoint("default", { task_id: task, force: false });
    expect(await place.head(task)).toEqual(before);
  });
});
