/**
 * Writers in separate processes, killed between every two steps on the queue, on a real server and a real
 * store. With any next writer, an acknowledged command is applied once and in order, and a dead letter is
 * stored, audited and alerted once.
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

interface Setup {
  readonly nats: TestNats;
  readonly bus: Bus;
  readonly store: string;
  readonly writers: TestService[];
}

async function withSetup(run: (setup: Setup) => Promise<void>): Promise<void> {
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
  setup: Setup,
  env: Record<string, string> = {},
  untilServing = true,
): Promise<TestService> {
  const settings = { ...environmentOf({ busUrl: setup.nats.url, storeUrl: setup.store }), ...env };
  const service = await startService("writer", settings, { program: PROGRAM, untilServing });
  setup.writers.push(service);
  return service;
}

async function crashAt(setup: Setup, moment: string): Promise<void> {
  await killed(await writer(setup, { FLEET_TEST_KILL_AT: moment }, false));
}

async function killed(service: TestService): Promise<void> {
  expect(await service.ended).toBe("SIGKILL");
}

async function drain({ bus }: Setup, service: TestService): Promise<void> {
  while ((await bus.stream(STREAMS.queue).state()).messages > 0) await sleep(50);
  await service.terminate();
}

const enqueue = ({ bus }: Setup, op: "create" | "release", body: Json, headers = {}) =>
  bus.publishDurable(
    SUBJECTS.queue("default", "agent-1", "task-1", op),
    { body: Buffer.from(JSON.stringify(body)), headers },
    { messageId: uuidv7(), timeoutMs: 5_000 },
  );

async function ask({ bus }: Setup, op: "create" | "take", body: Json, timeoutMs = 10_000): Promise<Json> {
  const subject = SUBJECTS.command("default", op === "take" ? "agent-2" : "agent-1", "task-1", op);
  const answer = await bus.request(subject, { body: Buffer.from(JSON.stringify(body)) }, { timeoutMs });
  return JSON.parse(Buffer.from(answer.body).toString()) as Json;
}

/** The task's audit trail, read while no writer has the store. Asserts that its chain is valid. */
async function trail(setup: Setup): Promise<Json[]> {
  const store = await openStore(setup.store);
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

const count = async ({ bus }: Setup, stream: string) => (await bus.stream(stream).state()).messages;
const applied = (entries: readonly Json[]) => entries.map(({ op, command_id }) => `${op} ${command_id}`);

// The next writer gets the message after the acknowledgement wait, so the tests wait concurrently.
describe.concurrent("a writer that dies right after", { timeout: 120_000 }, () => {
  test.each(["after:create", "publish:reply"])("%s of a queued command", async (moment) => {
    await withSetup(async (setup) => {
      const commands = Array.from({ length: 3 }, () => creation());
      for (const one of commands) {
        await enqueue(setup, "create", one, { "Fleet-Reply-To": "_INBOX.default.agent-1.answers" });
      }
      await crashAt(setup, moment);
      await drain(setup, await writer(setup));
      expect(applied(await trail(setup))).toEqual(commands.map(({ command_id }) => `create ${command_id}`));
      expect(await count(setup, STREAMS.dead)).toBe(0);
    });
  });

  test.each(["publish:dead", "after:refuse", "publish:alert"])("%s of a fenced command", async (moment) => {
    await withSetup(async (setup) => {
      const first = await writer(setup);
      const take = { command_id: uuidv7() };
      expect(await ask(setup, "take", take)).toMatchObject({ fence: 1 });
      await drain(setup, first);
      const [fenced, allowed] = [creation(), creation({ fence: 1 })];
      await enqueue(setup, "create", fenced);
      await enqueue(setup, "create", allowed);
      await crashAt(setup, moment);
      await drain(setup, await writer(setup));
      expect(applied(await trail(setup))).toEqual([
        `take ${take.command_id}`,
        `refuse ${fenced.command_id}`,
        `create ${allowed.command_id}`,
      ]);
      expect(await count(setup, STREAMS.dead)).toBe(1);
      expect(await count(setup, STREAMS.alerts)).toBe(1);
    });
  });

  test("publish:queue of a command with a waiting caller", async () => {
    await withSetup(async (setup) => {
      const dying = await writer(setup, { FLEET_TEST_KILL_AT: "publish:queue", FLEET_TEST_OUTAGE: "yes" });
      const command = creation();
      const answer = ask(setup, "create", command, 5_000).catch((error: unknown) => error);
      await killed(dying);
      expect(await answer).toMatchObject({ kind: "timeout" });
      expect(await count(setup, STREAMS.queue)).toBe(1);
      const next = await writer(setup);
      expect(await ask(setup, "create", command)).toMatchObject({ status: "committed" });
      await drain(setup, next);
      expect(applied(await trail(setup))).toEqual([`create ${command.command_id}`]);
      expect(await count(setup, STREAMS.dead)).toBe(0);
    });
  });
});
