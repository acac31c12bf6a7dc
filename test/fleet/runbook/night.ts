/** A night's fleet: real troubles, made as they come about, each in a tenant of its own so that its lists show nothing else. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import type { AlertType } from "../../../shared/protocol/alerts.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { FleetClient, TaskHandle } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { cli, environment, type Result } from "../../services/cli/process.ts";

export const TASK = "billing-42";
const SOON = { timeout: 60_000, interval: 100 };
const TYPE = "implementation";

/** By tenant, what its policy says other than the others'. */
const POLICY = {
  defaults: { recovery: { silence_ms: 1_500 } },
  tenants: {
    spent: { defaults: { recovery: { attempts: 1, previous_attempts: 0 } } },
    often: { defaults: { recovery: { window_attempts: 1 } } },
    nobody: { defaults: { offer: { deadline_ms: 1_000, max_attempts: 1 } } },
    lapsed: { defaults: { first_checkpoint_ms: 1_000 } },
    // Long enough to be looked at.
    waiting: { defaults: { recovery: { actions: { tool_error: ["back_off"] }, back_off_ms: 600_000 } } },
    circles: { defaults: { recovery: { silence_ms: 600_000 } } },
  },
};

export class Night {
  readonly fleet: TestFleet;
  readonly #folder: string;
  readonly #refusing: Server;

  private constructor(fleet: TestFleet, folder: string, refusing: Server) {
    this.fleet = fleet;
    this.#folder = folder;
    this.#refusing = refusing;
  }

  static async begin(): Promise<Night> {
    const folder = mkdtempSync(join(tmpdir(), "fleet-runbook-"));
    const file = (name: string, value: unknown): string => {
      writeFileSync(join(folder, name), JSON.stringify(value));
      return join(folder, name);
    };
    // It has gone, and says so.
    const refusing = createServer((_, reply) => reply.writeHead(410).end()).listen(0, "127.0.0.1");
    await new Promise((resolve) => refusing.once("listening", resolve));
    const { port } = refusing.address() as AddressInfo;
    const hook = { name: "pager", url: `http://127.0.0.1:${port}/`, tenants: ["hooked"] };
    const fleet = await startFleet({
      FLEET_LOG_LEVEL: "warn",
      FLEET_POLICY: file("policy.json", POLICY),
      FLEET_WEBHOOKS: file("webhooks.json", [hook]),
      // Threads open the store so that others may open it too.
      FLEET_THREADS: "2",
      FLEET_SCRUB_EVERY: "off",
    });
    file("mistaken.json", { defaults: { recovery: { silence: 1 } } });
    mkdirSync(join(folder, "bin"));
    writeFileSync(join(folder, "bin", "fleet"), `#!/bin/sh\nexec "${process.execPath}" "${cli}" "$@"\n`, {
      mode: 0o755,
    });
    return new Night(fleet, folder, refusing);
  }

  async end(): Promise<void> {
    await this.fleet.stop();
    this.#refusing.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** As a person types it. */
  run(command: string, tenant: string, env: Record<string, string> = {}): Promise<Result> {
    const own = {
      FLEET_URL: this.fleet.url,
      FLEET_TENANT: tenant,
      FLEET_SPOOL_DIR: join(this.fleet.home, "spool"),
      FLEET_AGENT_ID: "anna",
      PATH: [join(this.#folder, "bin"), dirname(process.execPath), process.env.PATH].join(delimiter),
      ...env,
    };
    return new Promise((resolve) => {
      const options = { cwd: projectRoot, env: environment(own) };
      const child = execFile("/bin/sh", ["-c", command], options, (_, out, err) => {
        resolve({ exit: child.exitCode, out, err });
      });
    });
  }

  /** A file of settings with a mistake in it. */
  get mistaken(): string {
    return join(this.#folder, "mistaken.json");
  }

  agent(tenant: string, name = "agent-7"): Promise<FleetClient> {
    return this.fleet.client(name, tenant);
  }

  /** A task of agent-7 with so many checkpoints; resolves with their ids, the oldest first. */
  async begun(tenant: string, checkpoints: number, taskId = TASK): Promise<string[]> {
    const task = await (await this.agent(tenant)).takeTask(taskId);
    const ids: string[] = [];
    for (let n = 1; n <= checkpoints; n += 1) ids.push(await write(task, n));
    return ids;
  }

  /** A runner says how the agent ended. */
  async fails(
    tenant: string,
    failure: ExitReport["class"],
    { fence = 1, name = "agent-7", task = TASK } = {},
  ): Promise<void> {
    const agent = await this.agent(tenant, name);
    const now = new Date().toISOString();
    await agent.reportExit({
      agent_id: name,
      agent_type: TYPE,
      task_id: task,
      fence,
      class: failure,
      exit_code: 1,
      signal: null,
      started_at: now,
      ended_at: now,
      host: "here",
      details: "no space left on device",
    });
  }

  /** Until the task's recovery is in that state. */
  async recovery(tenant: string, state: string, taskId = TASK): Promise<void> {
    const agent = await this.agent(tenant);
    await expect.poll(async () => (await agent.getTask(taskId))?.recovery?.state, SOON).toBe(state);
  }

  /** agent-8 takes the task that is offered; with how many completed items it writes, if it does. */
  async accepts(tenant: string, completed: number | null): Promise<number> {
    const next = await this.agent(tenant, "agent-8");
    await expect.poll(async () => (await next.handoffOf(TASK))?.state, SOON).toBe("offered");
    const handoff = await next.handoffOf(TASK);
    const { task, fence } = await next.acknowledgeHandoff({
      task_id: TASK,
      handoff_id: handoff?.handoff_id ?? "",
      agent_type: TYPE,
      checkpoint: { id: handoff?.checkpoint_id ?? "" },
    });
    if (completed !== null) await write(task, completed);
    return fence;
  }

  /** The id of the newest alert of that type, once it is there. */
  async alert(tenant: string, type: AlertType): Promise<string> {
    const agent = await this.agent(tenant);
    const newest = async (): Promise<string | undefined> =>
      (await agent.admin.listAlerts({ type })).alerts[0]?.alert.id;
    await expect.poll(newest, SOON).toBeDefined();
    return String(await newest());
  }

  /** Turns over a bit of a stored checkpoint, or of an earlier version of it, behind the fleet's back. Once more mends it. */
  async damage(tenant: string, checkpointId: string, version?: number): Promise<void> {
    // Or the indexer would be the one who finds it.
    const agent = await this.agent(tenant);
    await expect.poll(async () => (await agent.admin.indexStatus()).behind, SOON).toBe(0);
    const keys = tenantKeys(tenant);
    const key =
      version === undefined ? keys.checkpoint(TASK, checkpointId) : keys.version(TASK, checkpointId, version);
    const store = await openStore(`lmdb:${join(this.fleet.home, "store")}?shared`);
    const options = { label: "damage", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
    await store.transact(options, async (tx) => {
      const row = Buffer.from((await tx.get(key)) as Uint8Array);
      row[Math.floor(row.length / 2)]! ^= 1;
      tx.set(key, row);
    });
    await store.close({ drainMs: 1_000 });
  }

  /** Commands out of the queue that cannot be applied; resolves with their numbers as letters. */
  async dead(tenant: string, count: number): Promise<number[]> {
    const bus = await connectBus({ url: this.fleet.url, name: "test", identity: "agent-7", log: testLog });
    for (let n = 0; n < count; n += 1) {
      const body = { command_id: uuidv7(), checkpoint_id: uuidv7(), patch: { metrics: { error_count: 1 } } };
      const subject = SUBJECTS.queue(tenant, "agent-7", TASK, "update");
      await bus.publishDurable(
        subject,
        { body: Buffer.from(JSON.stringify(body)) },
        { messageId: body.command_id, timeoutMs: 5_000 },
      );
    }
    await bus.close();
    const agent = await this.agent(tenant);
    const letters = async () => (await agent.admin.deadLetters()).letters.map(({ seq }) => seq);
    await expect.poll(async () => (await letters()).length, SOON).toBe(count);
    return letters();
  }
}

async function write(task: TaskHandle, completed: number): Promise<string> {
  const { checkpointId } = await task.checkpoint({
    metadata: { agent_type: TYPE },
    execution_state: {
      phase: "implementing",
      completed_items: Array.from({ length: completed }, (_, i) => `item ${i + 1}`),
      pending_items: ["the rest"],
    },
  });
  return checkpointId;
}
