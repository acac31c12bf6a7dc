// An operator relies on the runbook at runbook. Each of its commands runs here, in a real situation of its section, and must
// end as its line says.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALERT_TYPES } from "../../../shared/protocol/alerts.ts";
import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import { BLOCK_REASONS } from "../../../shared/protocol/recovery-states.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { TestAgents } from "../../harness/processes/agents.ts";
import { startNats } from "../../harness/processes/nats.ts";
import { environmentOf, startService } from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { makeDeadLetters } from "./dead-letters.ts";
import { sections } from "./documented-commands.ts";
import { RunbookFleet, TASK } from "./runbook-fleet.ts";

/** A situation may need many steps of agents, and a busy machine takes seconds for each. */
const SECTION_MS = 180_000;
const SOON = { timeout: 60_000, interval: 100 };

interface Situation {
  readonly tenant: string;
  /** The values for the words in capitals. */
  readonly ids?: Readonly<Record<string, string | number>>;
  readonly env?: Record<string, string>;
  /** Runs after the section's commands. */
  readonly after?: () => Promise<unknown>;
}

const text = readFileSync(join(projectRoot, "services/watchdog/RUNBOOK.md"), "utf8");
const found = sections(text);
let runbook: RunbookFleet;
let agents: TestAgents;

beforeAll(async () => {
  runbook = await RunbookFleet.start();
  agents = new TestAgents(runbook.fleet.url, runbook.fleet.home);
}, SECTION_MS);
afterAll(async () => {
  agents?.kill();
  await runbook?.stop();
});

const SITUATIONS: Readonly<Record<string, () => Promise<Situation>>> = {
  async "Start here"() {
    await runbook.startTask("first", 1);
    await runbook.reportFailure("first", "unrecoverable");
    return { tenant: "first", ids: { ALERT: await runbook.untilAlert("first", "RECOVERY_BLOCKED") } };
  },
  async "Blocked: attempts_spent"() {
    await runbook.startTask("spent", 1);
    await runbook.reportFailure("spent", "crash");
    await failsAgain("spent", 1);
    await runbook.untilRecovery("spent", "blocked");
    return { tenant: "spent", after: () => runbook.untilRecovery("spent", "attempted") };
  },
  async "Blocked: too_many_attempts"() {
    await runbook.startTask("often", 1);
    await runbook.reportFailure("often", "crash");
    await failsAgain("often", 2);
    await runbook.untilRecovery("often", "blocked");
    return { tenant: "often", after: () => runbook.untilRecovery("often", "attempted") };
  },
  async "Blocked: unrecoverable"() {
    await runbook.startTask("refused", 1);
    await runbook.reportFailure("refused", "unrecoverable");
    await runbook.untilRecovery("refused", "blocked");
    return { tenant: "refused", after: () => runbook.untilRecovery("refused", "attempted") };
  },
  async "Blocked: chain_broken"() {
    const [first, second] = await runbook.startTask("broken", 3);
    await runbook.damage("broken", String(second));
    await runbook.reportFailure("broken", "crash");
    await runbook.untilRecovery("broken", "blocked");
    const ids = { CHECKPOINT: String(first) };
    return { tenant: "broken", ids, after: () => runbook.acceptOffer("broken", 2) };
  },
  async "Blocked: no_checkpoint"() {
    await runbook.startTask("empty", 0);
    await runbook.reportFailure("empty", "crash");
    await runbook.untilRecovery("empty", "blocked");
    return { tenant: "empty", after: () => runbook.untilRecovery("empty", "attempted") };
  },
  async "Blocked: withdrawn"() {
    await runbook.startTask("withdrawn", 1);
    await runbook.reportFailure("withdrawn", "crash");
    await runbook.untilRecovery("withdrawn", "attempted");
    await (await runbook.agent("withdrawn")).cancelHandoff(TASK, { reason: "not before the release" });
    await runbook.untilAlert("withdrawn", "RECOVERY_BLOCKED");
    return { tenant: "withdrawn", after: () => runbook.untilRecovery("withdrawn", "attempted") };
  },
  async "Blocked: many tasks at once"() {
    const tasks = [TASK, "billing-43"];
    for (const task of tasks) {
      await runbook.startTask("many", 1, task);
      await runbook.reportFailure("many", "unrecoverable", { task });
      await runbook.untilRecovery("many", "blocked", task);
    }
    const after = () => Promise.all(tasks.map((task) => runbook.untilRecovery("many", "attempted", task)));
    return { tenant: "many", after };
  },
  async "Handoff escalated: no agent accepts the task"() {
    await runbook.startTask("untaken", 1);
    await runbook.reportFailure("untaken", "crash");
    await runbook.untilAlert("untaken", "HANDOFF_FAILED");
    return { tenant: "untaken" };
  },
  async "Handoff escalated: the task cannot be offered"() {
    await runbook.startTask("unofferable", 1);
    await runbook.reportFailure("unofferable", "crash");
    await runbook.untilAlert("unofferable", "HANDOFF_FAILED");
    return { tenant: "unofferable", after: () => runbook.untilRecovery("unofferable", "attempted") };
  },
  async "Handoff rejected"() {
    const [first, second] = await runbook.startTask("rejected", 3);
    await runbook.damage("rejected", String(second));
    await (await runbook.agent("rejected")).initiateHandoff(null, { taskId: TASK, fence: 1 });
    await runbook.untilAlert("rejected", "HANDOFF_FAILED");
    const ids = { CHECKPOINT: String(first) };
    return { tenant: "rejected", ids, after: () => runbook.acceptOffer("rejected", 2) };
  },
  async "Handoff lapsed"() {
    await runbook.startTask("lapsed", 1);
    const agent = await runbook.agent("lapsed");
    const { handoffId } = await agent.initiateHandoff(null, { taskId: TASK, fence: 1 });
    await runbook.acceptOffer("lapsed", null);
    await runbook.untilAlert("lapsed", "HANDOFF_FAILED");
    await runbook.untilRecovery("lapsed", "attempted");
    return { tenant: "lapsed", ids: { HANDOFF: handoffId } };
  },
  async "Stored records are corrupt"() {
    const [first, , third] = (await runbook.startTask("corrupt", 3)) as [string, string, string];
    const patch = { metrics: { tokens_consumed: 1 } };
    const agent = await runbook.agent("corrupt");
    await agent.updateCheckpoint(first, patch, { taskId: TASK, fence: 1 });
    await runbook.damage("corrupt", third);
    await runbook.damage("corrupt", first, 1);
    return { tenant: "corrupt", after: () => runbook.damage("corrupt", first, 1) };
  },
  async "The bytes of an artifact are damaged"() {
    return { tenant: "files", ids: await runbook.damagedArtifact("files") };
  },
  async "An attempt to sign was refused"() {
    await runbook.startTask("forged", 1);
    const { admin } = await runbook.agent("forged");
    const statement = { subject: { task: TASK } } as EsignStatement;
    await expect(admin.esign.add(statement, "a.b.c")).rejects.toMatchObject({ code: "FORBIDDEN" });
    await runbook.untilAlert("forged", "SIGN_ATTEMPT_FAILED");
    return { tenant: "forged" };
  },
  async "A command is a dead letter"() {
    const [letter = 0, other = 0] = await deadLetters("letters");
    return { tenant: "letters", ids: { LETTER: letter, OTHER: other } };
  },
  async "Dead letters fill their stream"() {
    const [letter = 0, other = 0] = await deadLetters("full");
    return { tenant: "full", ids: { LETTER: letter, OTHER: other } };
  },
  async "A stream is nearly full"() {
    return { tenant: "default" };
  },
  async "A disk is nearly full"() {
    return { tenant: "default" };
  },
  async "Recoveries pile up"() {
    await runbook.startTask("waiting", 1, "offered-1");
    await runbook.reportFailure("waiting", "crash", { task: "offered-1" });
    await runbook.untilRecovery("waiting", "attempted", "offered-1");
    await runbook.startTask("waiting", 1);
    await runbook.reportFailure("waiting", "tool_error");
    await runbook.untilRecovery("waiting", "waiting");
    return { tenant: "waiting", after: () => runbook.untilRecovery("waiting", "attempted") };
  },
  async "An agent is silent and nothing happens"() {
    await runbook.startTask("silent", 1);
    const agent = await runbook.agent("silent");
    const aliveUntil = async () => (await agent.admin.recoveryPoint(TASK)).owner?.alive_until;
    await expect.poll(aliveUntil, SOON).toBeNull();
    return { tenant: "silent", after: () => runbook.untilRecovery("silent", "attempted") };
  },
  async "No watchdog runs"() {
    const nats = await startNats();
    const folder = mkdtempSync(join(tmpdir(), "fleet-unwatched-"));
    const addresses = { busUrl: nats.url, storeUrl: `lmdb:${folder}?shared` };
    const services = [
      await startService("writer", environmentOf(addresses)),
      await startService("reader", environmentOf(addresses)),
    ];
    const after = async (): Promise<void> => {
      await Promise.all(services.map((service) => service.terminate()));
      await nats.stop();
      rmSync(folder, { recursive: true, force: true });
    };
    return { tenant: "default", env: { FLEET_URL: nats.url }, after };
  },
  async "The watchdog does not start"() {
    return { tenant: "default", env: { FLEET_POLICY: runbook.invalidPolicy } };
  },
  async "Living agents are recovered"() {
    const frozen = agents.start({ agentId: "agent-7", tenant: "frozen", task: TASK, until: 1 });
    await frozen.line("waiting");
    frozen.signal("SIGSTOP");
    await runbook.acceptOffer("frozen", 2);
    frozen.signal("SIGCONT");
    // The agent finds out by itself that it was superseded.
    expect(await frozen.line("outcome")).toMatchObject({ outcome: "fenced" });
    return { tenant: "frozen" };
  },
  async "A superseded agent is refused again and again"() {
    await runbook.startTask("zombie", 1);
    await (await runbook.agent("zombie", "agent-8")).takeTask(TASK);
    const zombie = (await runbook.agent("zombie")).task(TASK, { fence: 1 });
    await expect(zombie.release()).rejects.toMatchObject({ code: "FENCED" });
    return { tenant: "zombie" };
  },
  async "A task goes in circles"() {
    await runbook.startTask("circles", 2);
    return { tenant: "circles", after: () => runbook.untilRecovery("circles", "attempted") };
  },
  async "The last scrub is old"() {
    const agent = await runbook.agent("old");
    const { requested_pass: pass } = await agent.admin.startScrub();
    await expect
      .poll(async () => (await agent.admin.scrubStatus()).last?.pass, SOON)
      .toBeGreaterThanOrEqual(pass ?? 0);
    return { tenant: "old" };
  },
  async "The audit log is behind"() {
    await runbook.startTask("unproved", 1);
    return { tenant: "unproved" };
  },
  async "The audit log is not anchored"() {
    await runbook.startTask("unanchored", 1);
    return { tenant: "unanchored" };
  },
  async "The store grows"() {
    await runbook.startTask("grown", 1);
    return { tenant: "grown" };
  },
  async "An approved shredding does not end"() {
    const tenant = "shredded";
    await heldShredding(tenant);
    await runbook.untilAlert(tenant, "SHREDDING_BLOCKED");
    const reader = await runbook.agent(tenant);
    const state = async () => (await reader.getTask(TASK))?.shred?.state;
    return { tenant, after: () => expect.poll(state, SOON).toBe("shredded") };
  },
  async "The access log loses entries"() {
    const [id] = await runbook.startTask("logged", 1);
    await (await runbook.agent("logged")).getCheckpoint(String(id));
    return { tenant: "logged" };
  },
  async "Webhooks fail"() {
    await runbook.startTask("hooked", 1);
    await runbook.reportFailure("hooked", "unrecoverable");
    await runbook.untilAlert("hooked", "RECOVERY_BLOCKED");
    const numbers = async () => (await fetch(`${runbook.fleet.opsUrl()}/metrics`)).text();
    await expect.poll(numbers, SOON).toMatch(/^fleet_webhooks_total\{.*outcome="refused".*\} 1$/m);
    return { tenant: "hooked" };
  },
  async "The watchdog cannot observe"() {
    return { tenant: "default" };
  },
};

/** A hold that comes after the approval and before the first removal. */
async function heldShredding(tenant: string): Promise<void> {
  await runbook.startTask(tenant, 1);
  const agent = await runbook.agent(tenant);
  await agent.task(TASK, { fence: 1 }).release();
  const olga = await runbook.agent(tenant, "human=olga");
  const pavel = await runbook.agent(tenant, "human=pavel");
  const { shred } = await olga.admin.retention.requestShred(TASK, { reason: "erasure" });
  await runbook.withoutShredding(async () => {
    await pavel.admin.retention.approveShred(TASK, shred?.request_seq ?? 0);
    await olga.admin.retention.hold(TASK, { hold: "case-7", reason: "litigation" });
  });
  expect((await agent.getTask(TASK))?.shred?.state).toBe("approved");
}

const deadLetters = (tenant: string) => makeDeadLetters(runbook.fleet, { tenant, task: TASK, count: 2 });

/** The next agent accepts the task, writes the given number of completed items, and fails as well. */
async function failsAgain(tenant: string, completed: number): Promise<void> {
  const fence = await runbook.acceptOffer(tenant, completed);
  await runbook.reportFailure(tenant, "crash", { fence, name: "agent-8" });
}

test("every section with commands has a situation, and every situation has a section", () => {
  expect(Object.keys(SITUATIONS)).toEqual(found.map(({ heading }) => heading));
});

test("the runbook covers every alert and every block reason", () => {
  expect([...ALERT_TYPES, ...BLOCK_REASONS].filter((name) => !text.includes(name))).toEqual([]);
});

test("every metric in the runbook exists", () => {
  const known = createMetrics({ ofProcess: false }).registry.getMetricsAsArray();
  const names = new Set(known.map(({ name }) => name));
  const named = [...text.matchAll(/\b(?:fleet|recovery|handoff)_[a-z_]+(?=[{`[)])/g)].map(([name]) => name);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !names.has(name))).toEqual([]);
});

describe("the commands of", { timeout: SECTION_MS }, () => {
  test.each(found)("$heading", async ({ heading, steps }) => {
    const { tenant, ids = {}, env, after } = await (SITUATIONS[heading] as () => Promise<Situation>)();
    for (const { command, exit, prints } of steps) {
      const filled = command.replaceAll(/\b[A-Z]{4,}\b/g, (name) => String(ids[name] ?? name));
      const run = () => runbook.run(filled, tenant, env);
      let result = await run();
      // A busy machine may refuse for longer than a command waits. Nothing was done then, and the answer says to try again.
      while (exit !== 69 && result.err.includes("limit of open requests")) result = await run();
      expect(result.exit, `${filled}\n${result.out}${result.err}`).toBe(exit);
      for (const quoted of prints) expect(`${result.out}${result.err}`, filled).toContain(quoted);
    }
    await after?.();
  });
});
