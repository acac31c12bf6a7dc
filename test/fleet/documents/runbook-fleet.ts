/** The fleet of the runbook test: real failures, each in its own tenant, so that its lists show nothing else. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { expect } from "vitest";
import type { AlertType } from "../../../shared/protocol/alerts.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { acquireLease, releaseLease } from "../../../shared/records/leader/lease.ts";
import type { FleetClient, TaskHandle } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import type { Result } from "../../services/cli/process.ts";
import { fileOf, partsOfSize } from "../artifacts/bytes.ts";
import { runLine, writePrograms } from "./shell.ts";

export const TASK = "billing-42";
const POLL = { timeout: 60_000, interval: 100 };
const TYPE = "implementation";

/** The policy of each tenant, as far as it differs from the defaults. */
const POLICY = {
  defaults: { recovery: { silence_ms: 1_500 } },
  tenants: {
    spent: { defaults: { recovery: { attempts: 1, previous_attempts: 0 } } },
    often: { defaults: { recovery: { window_attempts: 1 } } },
    untaken: { defaults: { offer: { deadline_ms: 1_000, max_attempts: 1 } } },
    unofferable: { agent_types: { implementation: { offer: { prompt_tokens: 5 } } } },
    lapsed: { defaults: { first_checkpoint_ms: 1_000 } },
    // Long enough for an operator to inspect it.
    waiting: { defaults: { recovery: { actions: { tool_error: ["back_off"] }, back_off_ms: 600_000 } } },
    circles: { defaults: { recovery: { silence_ms: 600_000 } } },
  },
};

export class RunbookFleet {
  readonly fleet: TestFleet;
  readonly #folder: string;
  readonly #webhook: Server;

  private constructor(fleet: TestFleet, folder: string, webhook: Server) {
    this.fleet = fleet;
    this.#folder = folder;
    this.#webhook = webhook;
  }

  static async start(): Promise<RunbookFleet> {
    const folder = mkdtempSync(join(tmpdir(), "fleet-runbook-"));
    const file = (name: string, value: unknown): string => {
      writeFileSync(join(folder, name), JSON.stringify(value));
      return join(folder, name);
    };
    // A webhook that answers 410 Gone.
    const webhook = createServer((_, reply) => reply.writeHead(410).end()).listen(0, "127.0.0.1");
    await new Promise((resolve) => webhook.once("listening", resolve));
    const { port } = webhook.address() as AddressInfo;
    const hook = { name: "pager", url: `http://127.0.0.1:${port}/`, tenants: ["hooked"] };
    const fleet = await startFleet({
      FLEET_LOG_LEVEL: "warn",
      FLEET_POLICY: file("policy.json", POLICY),
      FLEET_WEBHOOKS: file("webhooks.json", [hook]),
      // With threads the store is opened as shared, so that the test can open it too.
      FLEET_THREADS: "2",
      FLEET_SCRUB_EVERY: "off",
      // The runbook's damage has no copy.
      FLEET_MIRROR_DIR: "off",
    });
    file("mistaken.json", { defaults: { recovery: { silence: 1 } } });
    writePrograms(join(folder, "bin"));
    return new RunbookFleet(fleet, folder, webhook);
  }

  async stop(): Promise<void> {
    await this.fleet.stop();
    this.#webhook.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Runs a command as an operator's shell does. A plain call of `fleet` runs in this process, any other line in a shell. */
  run(command: string, tenant: string, env: Record<string, string> = {}): Promise<Result> {
    const own = {
      FLEET_URL: this.fleet.url,
      FLEET_HOME: this.fleet.home,
      FLEET_TENANT: tenant,
      FLEET_SPOOL_DIR: join(this.fleet.home, "spool"),
      FLEET_AGENT_ID: "anna",
      PATH: [join(this.#folder, "bin"), dirname(process.execPath), process.env.PATH].join(delimiter),
      ...env,
    };
    return runLine(command, { env: own, cwd: projectRoot });
  }

  /** The path of a policy with an unknown field. */
  get invalidPolicy(): string {
    return join(this.#folder, "mistaken.json");
  }

  agent(tenant: string, name = "agent-7"): Promise<FleetClient> {
    return this.fleet.client(name, tenant);
  }

  /** A task of agent-7 with a number of checkpoints; resolves with their ids, the oldest first. */
  async startTask(tenant: string, checkpoints: number, taskId = TASK): Promise<string[]> {
    const task = await (await this.agent(tenant)).takeTask(taskId);
    const ids: string[] = [];
    for (let n = 1; n <= checkpoints; n += 1) ids.push(await write(task, n));
    return ids;
  }

  /** Reports the end of an agent, as a runner does. */
  async reportFailure(
    tenant: string,
    failure: ExitReport["class"],
    { fence = 1, name = "agent-7", task = TASK } = {},
  ): Promise<void> {
    const agent = await this.agent(tenant, name);
    const details = "no space left on device";
    await agent.reportExit(
      exitReport({ agent_id: name, agent_type: TYPE, task_id: task, fence, class: failure, details }),
    );
  }

  /** Resolves when the recovery of the task has reached the state. */
  async untilRecovery(tenant: string, state: string, taskId = TASK): Promise<void> {
    const agent = await this.agent(tenant);
    await expect.poll(async () => (await agent.getTask(taskId))?.recovery?.state, POLL).toBe(state);
  }

  /** agent-8 accepts the offer and writes a checkpoint with `completed` items, or none if it is null. */
  async acceptOffer(tenant: string, completed: number | null): Promise<number> {
    const next = await this.agent(tenant, "agent-8");
    await expect.poll(async () => (await next.handoffOf(TASK))?.state, POLL).toBe("offered");
    const handoff = await next.handoffOf(TASK);
    const { task, fence } = await next.acknowledgeHandoff({
      task_id: TASK,
      handoff_id: handoff?.handoff_id ?? "",
      agent_type: TYPE,
      checkpoint: { id: handoff?.checkpoint_id ?? "" },
      digest: handoff?.offer_digest ?? "",
    });
    if (completed !== null) await write(task, completed);
    return fence;
  }

  /** Resolves with the id of the newest alert of that type as soon as there is one. */
  async untilAlert(tenant: string, type: AlertType): Promise<string> {
    const agent = await this.agent(tenant);
    const newest = async (): Promise<string | undefined> =>
      (await agent.admin.listAlerts({ type })).alerts[0]?.alert.id;
    await expect.poll(newest, POLL).toBeDefined();
    return String(await newest());
  }

  /**
   * Runs the body while the writer of the fleet shreds nothing: another instance, whose clock is ahead, takes the lease. Any transaction of
   * the writer that has begun before fails at its check of the lease.
   */
  async withoutShredding(body: () => Promise<void>): Promise<void> {
    const store = await openStore(`lmdb:${join(this.fleet.home, "store")}?shared`);
    const take = () =>
      acquireLease(store, {
        ...{ job: "shredding", holder: "runbook-test", leaseMs: LIMITS.leader_lease_ms },
        nowMs: Date.now() + LIMITS.leader_lease_ms + 1_000,
      });
    let renewal: Promise<unknown> = Promise.resolve();
    try {
      const lease = (await take())!;
      const renew = () => {
        renewal = renewal.then(take).catch(() => {});
      };
      const timer = setInterval(renew, 1_000);
      try {
        await body();
      } finally {
        clearInterval(timer);
        await renewal;
        await releaseLease(store, lease);
      }
    } finally {
      await store.close({ drainMs: 1_000 });
    }
  }

  /** Stores a file that a checkpoint references, and flips a bit of its bytes. */
  async damagedArtifact(tenant: string): Promise<{ readonly HASH: string; readonly FILE: string }> {
    const { path } = fileOf(this.#folder, "report.bin", 40_000);
    const task = await (await this.agent(tenant)).takeTask(TASK);
    const reference = await task.attach(path);
    await write(task, 1);
    const part = partsOfSize(this.fleet.home, reference.size, tenant)[0] as string;
    const bytes = readFileSync(part);
    bytes[0]! ^= 1;
    writeFileSync(part, bytes);
    return { HASH: reference.sha256, FILE: path };
  }

  /** Flips a bit of a stored checkpoint, or of an earlier version of it, without the fleet. A second call repairs it. */
  async damage(tenant: string, checkpointId: string, version?: number): Promise<void> {
    // Otherwise the indexer would find the damage first.
    const agent = await this.agent(tenant);
    await expect.poll(async () => (await agent.admin.indexStatus()).behind, POLL).toBe(0);
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
