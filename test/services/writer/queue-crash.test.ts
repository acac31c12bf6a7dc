/**
 * Writers killed between each two steps of what they do with the queue, as processes of their own on a real server and a real store:
 * what was taken is applied once and in order, a dead letter is written, audited and announced once, whoever comes next.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { describe, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { createChainVerifier } from "../../../shared/integrity/chain.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { openStore } from "../../../shared/store/open.ts";
import { creation } from "../../harness/in-process-fleet.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { environmentOf, startService, type TestService } from "../../harness/processes/services.ts";

type Json = Record<string, unknown>;

interface Place {
  readonly nats: TestNats;
  readonly bus: Bus;
  readonly store: string;
  readonly writers: TestService[];
}

async function withPlace(run: (place: Place) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "fleet-crash-"));
  const nats = await startNats();
  const writers: TestService[] = [];
  const bus = await connectBus({ url: nats.url, name: "test", identity: "agent-1", log: testLog });
  try {
    await bus.reconcileStreams(fleetStreams({ storageBytes: 200 * 1024 * 1024 }));
    await run({ nats, bus, store: `lmdb:${folder}/store`, writers });
  } finally {
    await Promise.all(writers.map((one) => one.kill9()));
    await bus.close();
    await nats.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const PROGRAM = "test/harness/processes/writer.program.ts";

async function writer(
  place: Place,
  env: Record<string, string> = {},
  untilServing = true,
): Promise<TestService> {
  const settings = { ...environmentOf({ busUrl: place.nats.url, storeUrl: place.store }), ...env };
  const service = await startService("writer", settings, { program: PROGRAM, untilServing });
  place.writers.push(service);
  return service;
}

async function dies(place: Place, moment: string): Promise<void> {
  await killed(await writer(place, { FLEET_TEST_KILL_AT: moment }, false));
}

async function killed(service: TestService): Promise<void> {
  expect(await service.ended).toBe("SIGKILL");
}

async function finished({ bus }: Place, service: TestService): Promise<void> {
  while ((await bus.stream(STREAMS.queue).state()).messages > 0) await sleep(50);
  await service.terminate();
}

const enqueue = ({ bus }: Place, op: "create" | "release", body: Json, headers = {}) =>
  bus.publishDurable(
    SUBJECTS.queue("default", "agent-1", "task-1", op),
    { body: Buffer.from(JSON.stringify(body)), headers },
    { messageId: uuidv7(), timeoutMs: 5_000 },
  );

async function ask({ bus }: Place, op: "create" | "take", body: Json, timeoutMs = 10_000): Promise<Json> {
  const subject = SUBJECTS.command("default", op === "take" ? "agent-2" : "agent-1", "task-1", op);
  const answer = await bus.request(subject, { body: Buffer.from(JSON.stringify(body)) }, { timeoutMs });
  return JSON.parse(Buffer.from(answer.body).toString()) as Json;
}

/** The task's audit trail, read when no writer has the store; its chain verifies. */
async function trail(place: Place): Promise<Json[]> {
  const store = await openStore(place.store);
  try {
    const format = await openFormat(store);
    const repository = new CheckpointRepository({ store, format, finder: "test", now: Date.now });
    const { task, entries } = await repository.audit("default", {
      task_id: "task-1",
      from_seq: 1,
      limit: 500,
    });
    const chain = createChainVerifier();
    for (const entry of entries) chain.add(entry);
    expect(chain.finish({ seq: task.audit_seq, hash: task.audit_hash })).toMatchObject({ ok: true });
    return entries.map(({ entry }) => JSON.parse(entry) as Json);
  } finally {
    await store.close({ drainMs: 2_000 });
  }
}

const count = async ({ bus }: Place, stream: string) => (await bus.stream(stream).state()).messages;
const applied = (entries: readonly Json[]) => entries.map(({ op, command_id }) => `${op} ${command_id}`);

// The next writer gets the message when its wait is over; side by side the tests wait together.
describe.concurrent("a writer that dies right after", { timeout: 120_000 }, () => {
  test.each(["after:create", "publish:reply"])("%s of a queued command", async (moment) => {
    await withPlace(async (place) => {
      const commands = Array.from({ length: 3 }, () => creation());
      for (const one of commands) {
        await enqueue(place, "create", one, { "Fleet-Reply-To": "_INBOX.agent-1.answers" });
      }
      await dies(place, moment);
      await finished(place, await writer(place));
      expect(applied(await trail(place))).toEqual(commands.map(({ command_id }) => `create ${command_id}`));
      expect(await count(place, STREAMS.dead)).toBe(0);
    });
  });

  test.each(["publish:dead", "after:refuse", "publish:alert"])("%s of a fenced command", async (moment) => {
    await withPlace(async (place) => {
      const first = await writer(place);
      const take = { command_id: uuidv7() };
      expect(await ask(place, "take", take)).toMatchObject({ fence: 1 });
      await finished(place, first);
      const [fenced, allowed] = [creation(), creation({ fence: 1 })];
      await enqueue(place, "create", fenced);
      await enqueue(place, "create", allowed);
      await dies(place, moment);
      await finished(place, await writer(place));
      expect(applied(await trail(place))).toEqual([
        `take ${take.command_id}`,
        `refuse ${fenced.command_id}`,
        `create ${allowed.command_id}`,
      ]);
      expect(await count(place, STREAMS.dead)).toBe(1);
      expect(await count(place, STREAMS.alerts)).toBe(1);
    });
  });

  test("publish:queue of a command whose caller waits", async () => {
    await withPlace(async (place) => {
      const dying = await writer(place, { FLEET_TEST_KILL_AT: "publish:queue", FLEET_TEST_OUTAGE: "yes" });
      const command = creation();
      const answer = ask(place, "create", command, 5_000).catch((error: unknown) => error);
      await killed(dying);
      expect(await answer).toMatchObject({ kind: "timeout" });
      expect(await count(place, STREAMS.queue)).toBe(1);
      const next = await writer(place);
      expect(await ask(place, "create", command)).toMatchObject({ status: "committed" });
      await finished(place, next);
      expect(applied(await trail(place))).toEqual([`create ${command.command_id}`]);
      expect(await count(place, STREAMS.dead)).toBe(0);
    });
  });
});
