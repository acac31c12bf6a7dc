/** Real dead letters: queued commands that cannot be applied. */
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { administratorBus } from "../../harness/credentials.ts";
import type { TestFleet } from "../../harness/processes/fleet.ts";

/** Resolves with the numbers of all dead letters of the tenant, once the new ones are among them. */
export async function makeDeadLetters(
  fleet: TestFleet,
  { tenant, task, count }: { tenant: string; task: string; count: number },
): Promise<number[]> {
  const agent = await fleet.client("agent-7", tenant);
  const letters = async () => (await agent.admin.deadLetters()).letters.map(({ seq }) => seq);
  const before = (await letters()).length;
  const bus = await administratorBus(fleet, "agent-7");
  for (let n = 0; n < count; n += 1) {
    const body = { command_id: uuidv7(), checkpoint_id: uuidv7(), patch: { metrics: { error_count: 1 } } };
    await bus.publishDurable(
      SUBJECTS.queue(tenant, "agent-7", task, "update"),
      { body: Buffer.from(JSON.stringify(body)) },
      { messageId: body.command_id, timeoutMs: 20_000 },
    );
  }
  await bus.close();
  await expect
    .poll(async () => (await letters()).length, { timeout: 60_000, interval: 100 })
    .toBe(before + count);
  return letters();
}
