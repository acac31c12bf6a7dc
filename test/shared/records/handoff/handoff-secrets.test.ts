// A failure's details, and the reasons that agents and operators give, may contain secrets. No secret leaves the store.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { offerDigest } from "../../../../shared/integrity/offer-digest.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { OFFER_TYPE, type Offer } from "../../../../shared/protocol/offer.ts";
import { initiate } from "../../../harness/records/handoffs.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { joined, SECRET_PART, SECRETS, WRITTEN_SECRETS } from "../../protocol/secrets.ts";

const URL = SECRETS["URL with a password"] as string;
const TEXT = `login failed: ${URL} and ${SECRETS["AWS key id"]}`;

describe.each(ENGINES)("secrets in handoffs on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  /** The answers of all queries about the handoffs of a task, and its published messages. */
  async function published(task: string): Promise<{ reasons: unknown[]; all: string }> {
    const one = await place.repository.handoff("default", { task_id: task });
    const { handoffs } = await place.repository.handoffs("default", { task_id: task, limit: 20 });
    const due = await place.repository.handoffActions.dueHandoffs(Date.now() * 2, 20);
    const outbox = (await place.outbox(task)).map(({ json }) => json);
    const reasons = [one, ...handoffs].map(({ reason }) => reason);
    const head = await place.head(task);
    return { reasons, all: JSON.stringify([one, handoffs, due, outbox, head, await place.trail(task)]) };
  }

  test("the details of a failure are published without their secrets", async () => {
    const task = await place.owned();
    await place.fail(task, { details: TEXT });
    await place.attempt(task);
    await place.takeOver(task, "agent-2");
    expect(await place.events(task)).toEqual(
      expect.arrayContaining(["RECOVERY_INITIATED", "AGENT_HANDOFF", OFFER_TYPE]),
    );
    for (const { event } of await place.outbox(task)) {
      if (event.type === OFFER_TYPE) expect(offerDigest(event.data)).toBe((event as Offer).data.digest);
    }
    const { reasons, all } = await published(task);
    const reason = expect.stringMatching(
      /login failed: .*\[redacted: password\]@.*\[redacted: AWS key id\]$/,
    );
    expect(reasons).toEqual([reason, reason]);
    expect(all).not.toMatch(SECRET_PART);
  });

  test("a secret at the limit of the reason is not cut in half", async () => {
    for (const before of [20, 50, 70, 90]) {
      const task = await place.owned();
      await place.fail(task, {
        details: `${"x ".repeat((LIMITS.handoff_reason_chars_max - before) / 2)}${URL}`,
      });
      await place.attempt(task);
      const { reasons, all } = await published(task);
      expect((reasons[0] as string).length).toBeGreaterThan(LIMITS.handoff_reason_chars_max - 100);
      expect(all).not.toMatch(SECRET_PART);
    }
  });

  test("the reasons of requests and cancellations are published without their secrets", async () => {
    const task = await place.owned();
    const by = { task, agent: "agent-1", fence: 1 };
    await initiate(place.repository, { ...by, body: { to_agent_type: "qa", reason: TEXT } });
    await send(place.repository, "cancel_handoff", { reason: TEXT }, by);
    expect((await published(task)).all).not.toMatch(SECRET_PART);

    await send(place.repository, "recover", { reason: TEXT, force: true }, { task, agent: "operator" });
    await place.attempt(task);
    expect((await published(task)).all).not.toMatch(SECRET_PART);
  });

  test.each(WRITTEN_SECRETS)("no view and no message contains a secret: %s", async (_, secret) => {
    const task = await place.owned();
    const body = { reason: `see ${secret}`.slice(0, LIMITS.handoff_reason_chars_max) };
    await initiate(place.repository, { task, agent: "agent-1", fence: 1, body });
    const after = (await published(task)).all;
    await send(place.repository, "cancel_handoff", body, { task, agent: "agent-1", fence: 1 });
    const cancelled = (await published(task)).all;
    const other = await place.owned();
    await place.fail(other, { details: body.reason });
    const failed = JSON.stringify([
      await place.repository.task("default", other),
      await place.repository.recoveries("default", { limit: 20 }),
      (await place.outbox(other)).map(({ json }) => json),
    ]);
    for (const text of [after, cancelled, failed]) expect(joined(text)).not.toMatch(SECRET_PART);
    expect(after).toContain("[redacted: ");
  });

  test("a reason at its limit stays within it when its secret is replaced by a longer text", async () => {
    const reason = `${"password=abcdef ".repeat(200)}`.slice(0, LIMITS.handoff_reason_chars_max);
    const task = await place.owned();
    await initiate(place.repository, { task, agent: "agent-1", fence: 1, body: { reason } });
    const { reasons } = await published(task);
    expect(reasons[0]).toHaveLength(LIMITS.handoff_reason_chars_max);
  });
});
