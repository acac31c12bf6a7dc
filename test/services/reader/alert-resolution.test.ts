/**
 * Which alerts are resolved, by the heads that real transitions left: each way in which a blocked task
 * continues.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { evidenceOf, isResolved } from "../../../services/reader/alert-resolution.ts";
import { type Alert, alertOf } from "../../../shared/protocol/alerts.ts";
import type { EventType, FleetEvent } from "../../../shared/protocol/events.ts";
import { offer } from "../../harness/records/handoffs.ts";
import { create, finalize, input, send } from "../../harness/records/records.ts";
import { TestTasks } from "../../harness/records/tasks.ts";

let place: TestTasks;
beforeAll(async () => {
  place = await TestTasks.open("memory");
});
afterAll(() => place.close());

/** The newest event of a type. */
async function newest<T extends EventType>(task: string, type: T): Promise<FleetEvent<T>> {
  const events = (await place.outbox(task)).map(({ event }) => event).filter((event) => event.type === type);
  return events.at(-1) as FleetEvent<T>;
}

const of = ({ tenant, subject, sequence, time }: FleetEvent) => ({
  tenant,
  task: subject,
  occasion: String(sequence),
  nowMs: Date.parse(time),
});

async function blockedAlert(task: string): Promise<Alert> {
  const event = await newest(task, "TASK_BLOCKED");
  const why = { reason: "unrecoverable", class: "unrecoverable", agentId: null, details: null } as const;
  return alertOf("RECOVERY_BLOCKED", "critical", {
    ...of(event),
    data: { taskId: task, attempts: 0, ...why },
  });
}

async function handoffAlert(task: string): Promise<Alert> {
  const event = await newest(task, "HANDOFF_FAILED");
  const { handoffId, reason, state } = event.data;
  if (state === "cancelled") throw new Error("a cancelled handoff has no alert");
  const data = { handoffId, taskId: task, state, reason } as const;
  return alertOf("HANDOFF_FAILED", "critical", { ...of(event), data });
}

/** Whether the alert is resolved by the current head of its task. */
const resolved = async (alert: Alert): Promise<boolean> =>
  isResolved(alert, { head: await place.head(alert.subject), stream: null });

/** A task that is blocked because its agent failed unrecoverably. */
async function blocked(): Promise<string> {
  const task = await place.owned();
  await place.fail(task, { class: "unrecoverable" });
  return task;
}

async function escalate(id: string): Promise<void> {
  await offer(place.repository, id);
  await place.escalate(id);
}

const take = (task: string, agent = "anna") => send(place.repository, "take", {}, { task, agent });
const again = (task: string) => send(place.repository, "recover", {}, { task, agent: "anna" });

describe("the alert of a blocked recovery", () => {
  const WAYS: [string, (task: string) => Promise<unknown>][] = [
    ["an operator has it recovered again", again],
    [
      "a new owner writes to it",
      async (task) => {
        await take(task);
        await place.write(task, "anna", {});
      },
    ],
    [
      "it is handed over",
      (task) => send(place.repository, "handoff", { to_agent_type: "qa" }, { task, agent: "anna" }),
    ],
    [
      "the task ends",
      async (task) => {
        const { checkpoint_id: id } = await place.write(task, "agent-2", { phase: "complete" });
        const { fence } = await place.head(task);
        await finalize(place.repository, id, "succeeded", { task, agent: "agent-2", fence });
      },
    ],
  ];

  test.each(WAYS)("is resolved when %s", async (_, resume) => {
    const task = await blocked();
    const alert = await blockedAlert(task);
    expect(await resolved(alert)).toBe(false);
    await resume(task);
    expect(await resolved(alert)).toBe(true);
  });

  test("is open when the task is taken or released, or written to without an owner", async () => {
    const task = await blocked();
    const alert = await blockedAlert(task);
    await place.write(task, "anna", {});
    expect(await resolved(alert)).toBe(false);
    const { fence } = await take(task);
    expect(await resolved(alert)).toBe(false);
    await send(place.repository, "release", {}, { task, agent: "anna", fence });
    await place.write(task, "anna", {});
    expect(await resolved(alert)).toBe(false);
  });

  // The clock stands still: the alert of a block is identified by its audit entry, not by its time.
  test("stays resolved when the task is blocked again, and when it is taken then", async () => {
    const task = await blocked();
    const first = await blockedAlert(task);
    await again(task);
    await place.attempt(task);
    await place.takeOver(task, "agent-2");
    await place.fail(task, { class: "unrecoverable" });
    const second = await blockedAlert(task);
    expect([await resolved(first), await resolved(second)]).toEqual([true, false]);
    await take(task);
    expect([await resolved(first), await resolved(second)]).toEqual([true, false]);
    await place.write(task, "anna", {});
    expect([await resolved(first), await resolved(second)]).toEqual([true, true]);
  });

  test("is open again when the task is blocked for the same reason without progress", async () => {
    const task = await blocked();
    const alert = await blockedAlert(task);
    await take(task);
    await place.write(task, "anna", { completed: 0 });
    expect(await resolved(alert)).toBe(true);
    await place.fail(task, { class: "unrecoverable" });
    expect(await resolved(alert)).toBe(false);
  });
});

describe("the alert of a failed handoff", () => {
  test("is resolved when the task is written to again", async () => {
    const { task, id } = await place.requested();
    await escalate(id);
    const alert = await handoffAlert(task);
    expect(await resolved(alert)).toBe(false);
    await create(place.repository, { task, agent: "giver", fence: 1, checkpoint: input() });
    expect(await resolved(alert)).toBe(true);
  });

  test("is resolved by a new recovery attempt, also if that fails later", async () => {
    const task = await place.attempted();
    await escalate((await place.head(task)).handoff_id ?? "");
    const first = await handoffAlert(task);
    expect(await resolved(first)).toBe(false);
    place.now += 1;
    await again(task);
    expect(await resolved(first)).toBe(true);
    await place.attempt(task);
    await escalate((await place.head(task)).handoff_id ?? "");
    expect([await resolved(first), await resolved(await handoffAlert(task))]).toEqual([true, false]);
  });

  test("is resolved for a lapsed handoff when the next agent has written", async () => {
    const { task, id } = await place.accepted();
    place.now += 900_001;
    await place.repository.handoffActions.lapseHandoff("default", id);
    const alert = await handoffAlert(task);
    await place.fail(task, { signal: "handoff_lapsed" });
    await place.attempt(task);
    expect(await resolved(alert)).toBe(false);
    await place.takeOver(task, "agent-2");
    await place.write(task, "agent-2", {});
    expect(await resolved(alert)).toBe(true);
  });
});

test("an alert is open without a head, and one without a rule always", async () => {
  const task = await blocked();
  const alert = await blockedAlert(task);
  expect(isResolved(alert, { head: null, stream: null })).toBe(false);
  const data = { stream: "FLEET_QUEUE", reason: "fenced", commandId: null };
  const dead = alertOf("COMMAND_DEAD", "warning", { ...of(await newest(task, "TASK_BLOCKED")), data });
  expect([alert, dead, { ...dead, type: "toString" }].map(evidenceOf)).toEqual(["head", null, null]);
  await again(task);
  expect([await resolved(alert), await resolved(dead)]).toEqual([true, false]);
});
