/**
 * A full stream of dead letters, on a real nats-server: a command that cannot be applied waits for room and
 * is not lost. Operators get one alert, which is resolved when there is room again.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AlertPage, AlertState } from "../../../shared/protocol/alert-queries.ts";
import { alertText } from "../../../shared/protocol/alert-text.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { creation, type InProcessFleet, openInProcessWriter } from "../../harness/in-process-fleet.ts";

const MIB = 1024 * 1024;
/** Dead letters get a tenth: five letters and a rest. */
const STORAGE_BYTES = 100 * MIB;
const LETTER_BYTES = 1_900_000;
/** Longer than the interval at which a writer looks at the stream. */
const SOON = { timeout: 20_000, interval: 100 };

let fleet: InProcessFleet;

beforeEach(async () => {
  fleet = await openInProcessWriter({ storageBytes: STORAGE_BYTES });
  await fleet.startReader();
});
afterEach(() => fleet.close());

/** Queues a body that is no command. */
const enqueueRubbish = () => fleet.enqueue("create", "x".repeat(LETTER_BYTES), { task: "task-1" });

const dead = () => fleet.bus.stream(STREAMS.dead).state();

async function alerts(): Promise<readonly AlertState[]> {
  const answer = await fleet.ask("alerts", { type: "DEAD_LETTERS_FULL" });
  return (answer.result as AlertPage).alerts;
}

/** Resolves when no letter fits any more and one command waits for room. */
async function fill(): Promise<void> {
  const { messages, bytes, bytesMax } = await dead();
  const fitting = Math.floor((bytesMax - bytes) / LETTER_BYTES);
  for (let n = 0; n <= fitting; n += 1) await enqueueRubbish();
  await expect.poll(async () => (await dead()).messages, SOON).toBe(messages + fitting);
  await expect.poll(() => fleet.depth(), SOON).toBe(1);
}

const copies = async () =>
  (
    await fleet.bus.stream(STREAMS.alerts).newest({
      filter: SUBJECTS.alertsOf({ tenant: "default", severity: "critical", task: "unknown" }),
      limit: 10,
    })
  ).length;

test("each time the dead letters fill their stream, one alert is raised and later resolved", async () => {
  await fleet.startWriter();
  await fill();
  const next = creation();
  await fleet.enqueue("create", next);
  await expect.poll(alerts, SOON).toHaveLength(1);
  const [{ alert, resolved }] = (await alerts()) as [AlertState];
  const { messages, bytes, bytesMax } = await dead();
  expect(alert).toMatchObject({
    severity: "critical",
    tenant: "default",
    subject: "unknown",
    data: { stream: "FLEET_DEAD", letters: messages, bytes, bytesMax },
  });
  expect(resolved).toBe(false);
  const { what, todo, command } = alertText(alert);
  for (const sentences of [what, todo]) expect(sentences).toMatch(/^[A-Z][^<>&]*\.$/);
  expect(what).toContain(`${messages} letters, limit 10 MiB`);
  expect(command).toBe("fleet queue dead list");
  expect(await fleet.depth()).toBe(2);

  for (const { seq } of (await fleet.letters()).slice(0, 3)) await fleet.ask("dead_drop", { seq });
  await fleet.drained();
  expect(await fleet.applied()).toEqual([next.command_id]);
  // Between two removals, the waiting command may have filled the stream again, which is another alert.
  const earlier = await alerts();
  expect(earlier.map((one) => one.resolved)).not.toContain(false);
  const measured = async () => (await fleet.metrics.deadLetters.get()).values[0]?.value;
  await expect.poll(measured, SOON).toBe(messages - 2);

  await fill();
  await expect.poll(async () => (await alerts()).length, SOON).toBeGreaterThan(earlier.length);
  // Two writers watch the stream, and their alerts have one id. A list has each id once.
  const published = await copies();
  expect(published).toBeLessThanOrEqual((await alerts()).length);
});
