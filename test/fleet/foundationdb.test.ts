/** A fleet of separate processes, and a standalone one, on one FoundationDB server that is killed and paused. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CheckpointInput, FleetClient } from "../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";
import { startNats, type TestNats } from "../harness/processes/nats.ts";
import {
  connectClient,
  environmentOf,
  type ServiceUrls,
  startService,
  type TestService,
} from "../harness/processes/services.ts";
import {
  type FoundationdbServer,
  missingFoundationdb,
  startFoundationdb,
} from "../harness/stores/foundationdb.ts";

const missing = await missingFoundationdb();
const DEADLINE_MS = 60_000;
/** Queued commands are answered so fast that a sender without a pause would fill the queue. */
const QUEUED_PAUSE_MS = 500;
/** The limit for a request without a deadline, including the delay of a loaded machine. */
const ANSWERED_MS = 15_000;

const checkpoint = (n: number): CheckpointInput => ({
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing", completed_items: [`step ${n}`] },
});

describe.skipIf(missing !== undefined)("a fleet of several processes on FoundationDB", () => {
  let server: FoundationdbServer;
  let nats: TestNats;
  let natsDir: string;
  let urls: ServiceUrls;
  let services: TestService[];
  let clients: FleetClient[];

  beforeAll(async () => {
    natsDir = await mkdtemp(join(tmpdir(), "fleet-nats-"));
    // Services that did not start the server do not know its disk size, so they create streams of full size.
    await writeFile(join(natsDir, "nats.conf"), `max_file_store: ${64 * 2 ** 30}\n`);
    [server, nats] = await Promise.all([startFoundationdb(), startNats({ dir: natsDir })]);
    urls = { busUrl: nats.url, storeUrl: `fdb:${server.clusterFile}` };
    const roles = ["writer", "reader", "writer", "reader"] as const;
    services = await Promise.all(roles.map((role) => startService(role, environmentOf(urls))));
    clients = await Promise.all([0, 1, 2, 3].map((n) => connectClient(urls, `agent-${n}`)));
  }, 120_000);

  afterAll(async () => {
    await server?.control?.continue();
    await Promise.all((clients ?? []).map((client) => client.close()));
    await Promise.all((services ?? []).map((service) => service.kill9()));
    await Promise.all([server?.stop(), nats?.stop()]);
    await rm(natsDir, { recursive: true, force: true });
  });

  /** Creates checkpoints of `tasks` from all clients until `end`; each command is repeated until it is answered. */
  function workload(tasks: readonly string[]) {
    const commands = new Map<string, string>();
    let stop = false;
    let committed = 0;
    let onOutcome = () => {};
    const sender = async (client: FleetClient, offset: number) => {
      for (let n = 0; !stop; n += 1) {
        const [commandId, taskId] = [uuidv7(), tasks[(n + offset) % tasks.length]!];
        commands.set(commandId, taskId);
        const command = { taskId, commandId, checkpoint: checkpoint(n), deadlineMs: DEADLINE_MS };
        const { outcome } = await client.createCheckpoint(command);
        if (outcome === "committed") committed += 1;
        else await pause(QUEUED_PAUSE_MS);
        onOutcome();
      }
    };
    const senders = clients.flatMap((client, n) => [n, n + 1, n + 2].map((offset) => sender(client, offset)));
    return {
      more: (count: number) => {
        const enough = committed + count;
        return new Promise<void>((resolve) => {
          onOutcome = () => committed >= enough && resolve();
        });
      },
      async end() {
        stop = true;
        await Promise.all(senders);
        return commands;
      },
    };
  }

  /** Asserts that each command has one effect, also after it was queued, and that each history is complete and each chain valid. */
  async function verify(tasks: readonly string[], commands: ReadonlyMap<string, string>): Promise<void> {
    const client = clients[0]!;
    const endsAt = performance.now() + DEADLINE_MS;
    const history = (task: string) => client.getCheckpointHistory(task, { limit: 1_000, order: "oldest" });
    const all = async () => await Promise.all(tasks.map(history));
    let pages = await all();
    const found = () =>
      pages.flatMap((page) => page.checkpoints.map(({ metadata }) => metadata.checkpoint_id));
    while (found().length < commands.size && performance.now() < endsAt) pages = await all();
    expect(found().sort()).toEqual([...commands.keys()].sort());
    for (const { checkpoints, corrupt } of pages) {
      expect(corrupt).toEqual([]);
      expect(checkpoints.map(({ metadata }) => metadata.seq)).toEqual(checkpoints.map((_, i) => i + 1));
    }
    for (const task of tasks) expect((await client.verifyAudit(task)).ok).toBe(true);
  }

  test("writers share the tasks, one of them is killed, and every command has one effect", async () => {
    const tasks = ["shared-1", "shared-2", "shared-3"];
    const work = workload(tasks);
    await work.more(60);
    await services[0]!.kill9();
    await work.more(60);
    services[0] = await startService("writer", environmentOf(urls));
    await work.more(60);
    await verify(tasks, await work.end());
  }, 180_000);

  test.each(["killed", "paused"])(
    "work continues after the database was %s under load",
    async (fault) => {
      const { control } = server;
      if (control === undefined) return;
      const tasks = [`${fault}-1`, `${fault}-2`];
      const work = workload(tasks);
      await work.more(60);
      if (fault === "killed") await control.kill();
      else await control.pause();
      const startedAt = performance.now();
      const asked = clients[0]!.getLatestCheckpoint(tasks[0]!);
      await expect(asked).rejects.toMatchObject({ code: expect.stringMatching(/^(UNAVAILABLE|TIMEOUT)$/) });
      expect(performance.now() - startedAt).toBeLessThan(ANSWERED_MS);
      if (fault === "killed") await control.restart();
      else await control.continue();
      await work.more(60);
      await verify(tasks, await work.end());
    },
    180_000,
  );

  test("readers find committed checkpoints by index, and the outbox drains", async () => {
    const client = clients[1]!;
    const { position } = (await client.createCheckpoint({ taskId: "found", checkpoint: checkpoint(1) })) as {
      position: string;
    };
    const result = await client.searchCheckpoints({ agentId: "agent-1", taskId: "found", waitFor: position });
    expect(result.checkpoints).toHaveLength(1);
    while ((await client.admin.status()).outbox.depth > 0);
  }, 60_000);

  test("all services stop cleanly on SIGTERM, even when the database does not answer", async () => {
    const [writer, reader, ...others] = services as [TestService, TestService, ...TestService[]];
    const stop = async (some: TestService[]) => Promise.all(some.map((service) => service.terminate()));
    expect(await stop([writer, reader])).toEqual([0, 0]);
    await server.control?.pause();
    try {
      expect(await stop(others)).toEqual([0, 0]);
    } finally {
      await server.control?.continue();
    }
    services = [];
  }, 60_000);

  test("a writer that starts while the database is unavailable reports it and ends", async () => {
    const folder = await mkdtemp(join(tmpdir(), "fleet-fdb-"));
    const clusterFile = join(folder, "fdb.cluster");
    await writeFile(clusterFile, "absent:absent@127.0.0.1:1\n");
    const startedAt = performance.now();
    const start = startService("writer", environmentOf({ ...urls, storeUrl: `fdb:${clusterFile}` }));
    await expect(start).rejects.toThrow("the writer ended with 69");
    expect(performance.now() - startedAt).toBeLessThan(ANSWERED_MS);
    await rm(folder, { recursive: true });
  }, 60_000);
});

describe.skipIf(missing !== undefined)("a standalone fleet on FoundationDB", () => {
  let server: FoundationdbServer;
  let fleet: TestFleet;

  beforeAll(async () => {
    server = await startFoundationdb();
    fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1", FLEET_STORE: `fdb:${server.clusterFile}` });
  }, 240_000);
  afterAll(async () => {
    await server?.control?.continue();
    await fleet?.stop();
    await server?.stop();
  });

  test.each(["killed", "frozen"])(
    "stops cleanly and soon while the database is %s, and applies its queued commands once after the next start",
    async (fault) => {
      const { control } = server;
      if (control === undefined) return;
      const taskId = `stopped-${fault}`;
      const client = await fleet.client("agent-0");
      const ids = Array.from({ length: 11 }, () => uuidv7());
      const write = async (n: number) => {
        const command = { taskId, commandId: ids[n]!, checkpoint: checkpoint(n), deadlineMs: DEADLINE_MS };
        return (await client.createCheckpoint(command)).outcome;
      };
      expect(await write(0)).toBe("committed");
      if (fault === "killed") await control.kill();
      else await control.pause();
      const outcomes = await Promise.all(ids.slice(1).map((_, i) => write(i + 1)));
      expect(new Set(outcomes)).toEqual(new Set(["queued"]));
      const startedAt = performance.now();
      expect(await fleet.terminate(), fleet.output()).toBe(0);
      expect(performance.now() - startedAt).toBeLessThan(ANSWERED_MS);
      if (fault === "killed") await control.restart();
      else await control.continue();
      await fleet.start();
      const found = async () => {
        const page = await client.getCheckpointHistory(taskId, { limit: 1_000 }).catch(() => undefined);
        return page?.checkpoints.map(({ metadata }) => metadata.checkpoint_id).sort();
      };
      await expect.poll(found, { timeout: DEADLINE_MS }).toEqual(ids.toSorted());
      expect((await client.verifyAudit(taskId)).ok).toBe(true);
    },
    180_000,
  );
});
