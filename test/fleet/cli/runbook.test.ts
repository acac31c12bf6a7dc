// An operator relies on the runbook at night. Each of its commands runs here, in a real situation of its section, and must
// end as its line says.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALERT_TYPES } from "../../../shared/protocol/alerts.ts";
import { BLOCK_REASONS } from "../../../shared/protocol/recovery-states.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { TestAgents } from "../../harness/processes/agents.ts";
import { startNats } from "../../harness/processes/nats.ts";
import { environmentOf, startService } from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { sections } from "../runbook/blocks.ts";
import { Night, TASK } from "../runbook/night.ts";

/** Each command is a process of its own, and a busy machine takes seconds to start one. */
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
let night: Night;
let agents: TestAgents;

beforeAll(async () => {
  night = await Night.begin();
  agents = new TestAgents(night.fleet.url);
}, SECTION_MS);
afterAll(async () => {
  agents?.kill();
  await night?.end();
});

const SITUATIONS: Readonly<Record<string, () => Promise<Situation>>> = {
  async "Start here"() {
    await night.begun("first", 1);
    await night.fails("first", "unrecoverable");
    return { tenant: "first", ids: { ALERT: await night.alert("first", "RECOVERY_BLOCKED") } };
  },
  async "Blocked: attempts_spent"() {
    await night.begun("spent", 1);
    await night.fails("spent", "crash");
    await failsAgain("spent", 1);
    await night.recovery("spent", "blocked");
    return { tenant: "spent", after: () => night.recovery("spent", "attempted") };
  },
  async "Blocked: too_many_attempts"() {
    await night.begun("often", 1);
    await night.fails("often", "crash");
    await failsAgain("often", 2);
    await night.recovery("often", "blocked");
    return { tenant: "often", after: () => night.recovery("often", "attempted") };
  },
  async "Blocked: unrecoverable"() {
    await night.begun("refused", 1);
    await night.fails("refused", "unrecoverable");
    await night.recovery("refused", "blocked");
    return { tenant: "refused", after: () => night.recovery("refused", "attempted") };
  },
  async "Blocked: chain_broken"() {
    const [first, second] = await night.begun("broken", 3);
    await night.damage("broken", String(second));
    await night.fails("broken", "crash");
    await night.recovery("broken", "blocked");
    const ids = { CHECKPOINT: String(first) };
    return { tenant: "broken", ids, after: () => night.accepts("broken", 2) };
  },
  async "Blocked: no_checkpoint"() {
    await night.begun("empty", 0);
    await night.fails("empty", "crash");
    await night.recovery("empty", "blocked");
    return { tenant: "empty", after: () => night.recovery("empty", "attempted") };
  },
  async "Blocked: withdrawn"() {
    await night.begun("withdrawn", 1);
    await night.fails("withdrawn", "crash");
    await night.recovery("withdrawn", "attempted");
    await (await night.agent("withdrawn")).cancelHandoff(TASK, { reason: "not before the release" });
    await night.alert("withdrawn", "RECOVERY_BLOCKED");
    return { tenant: "withdrawn", after: () => night.recovery("withdrawn", "attempted") };
  },
  async "Blocked: many tasks at once"() {
    const tasks = [TASK, "billing-43"];
    for (const task of tasks) {
      await night.begun("many", 1, task);
      await night.fails("many", "unrecoverable", { task });
      await night.recovery("many", "blocked", task);
    }
    const after = () => Promise.all(tasks.map((task) => night.recovery("many", "attempted", task)));
    return { tenant: "many", after };
  },
  async "Handoff escalated: no agent accepts the task"() {
    await night.begun("nobody", 1);
    await night.fails("nobody", "crash");
    await night.alert("nobody", "HANDOFF_FAILED");
    return { tenant: "nobody" };
  },
  async "Handoff rejected"() {
    const [first, second] = await night.begun("rejected", 3);
    await night.damage("rejected", String(second));
    await (await night.agent("rejected")).initiateHandoff(null, { taskId: TASK, fence: 1 });
    await night.alert("rejected", "HANDOFF_FAILED");
    const ids = { CHECKPOINT: String(first) };
    return { tenant: "rejected", ids, after: () => night.accepts("rejected", 2) };
  },
  async "Handoff lapsed"() {
    await night.begun("lapsed", 1);
    const agent = await night.agent("lapsed");
    const { handoffId } = await agent.initiateHandoff(null, { taskId: TASK, fence: 1 });
    await night.accepts("lapsed", null);
    await night.alert("lapsed", "HANDOFF_FAILED");
    await night.recovery("lapsed", "attempted");
    return { tenant: "lapsed", ids: { HANDOFF: handoffId } };
  },
  async "Stored records are corrupt"() {
    const [first, , third] = (await night.begun("corrupt", 3)) as [string, string, string];
    const patch = { metrics: { tokens_consumed: 1 } };
    const agent = await night.agent("corrupt");
    await agent.updateCheckpoint(first, patch, { taskId: TASK, fence: 1 });
    await night.damage("corrupt", third);
    await night.damage("corrupt", first, 1);
    return { tenant: "corrupt", after: () => night.damage("corrupt", first, 1) };
  },
  async "A command is a dead letter"() {
    const [letter = 0, other = 0] = await night.dead("letters", 2);
    return { tenant: "letters", ids: { LETTER: letter, OTHER: other } };
  },
  async "Dead letters fill their stream"() {
    const [letter = 0, other = 0] = await night.dead("full", 2);
    return { tenant: "full", ids: { LETTER: letter, OTHER: other } };
  },
  async "Recoveries pile up"() {
    await night.begun("waiting", 1, "offered-1");
    await night.fails("waiting", "crash", { task: "offered-1" });
    await night.recovery("waiting", "attempted", "offered-1");
    await night.begun("waiting", 1);
    await night.fails("waiting", "tool_error");
    await night.recovery("waiting", "waiting");
    return { tenant: "waiting", after: () => night.recovery("waiting", "attempted") };
  },
  async "An agent is silent and nothing happens"() {
    await night.begun("silent", 1);
    const agent = await night.agent("silent");
    const aliveUntil = async () => (await agent.admin.recoveryPoint(TASK)).owner?.alive_until;
    await expect.poll(aliveUntil, SOON).toBeNull();
    return { tenant: "silent", after: () => night.recovery("silent", "attempted") };
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
    return { tenant: "default", env: { FLEET_POLICY: night.mistaken } };
  },
  async "Living agents are recovered"() {
    const frozen = agents.start({ agentId: "agent-7", tenant: "frozen", task: TASK, until: 1 });
    await frozen.line("waiting");
    frozen.signal("SIGSTOP");
    await night.accepts("frozen", 2);
    frozen.signal("SIGCONT");
    // The agent finds out by itself that it was superseded.
    expect(await frozen.line("outcome")).toMatchObject({ outcome: "fenced" });
    return { tenant: "frozen" };
  },
  async "A superseded agent is refused again and again"() {
    await night.begun("zombie", 1);
    await (await night.agent("zombie", "agent-8")).takeTask(TASK);
    const zombie = (await night.agent("zombie")).task(TASK, { fence: 1 });
    await expect(zombie.release()).rejects.toMatchObject({ code: "FENCED" });
    return { tenant: "zombie" };
  },
  async "A task goes in circles"() {
    await night.begun("circles", 2);
    return { tenant: "circles", after: () => night.recovery("circles", "attempted") };
  },
  async "The last scrub is old"() {
    const agent = await night.agent("old");
    const { requested_pass: pass } = await agent.admin.startScrub();
    await expect
      .poll(async () => (await agent.admin.scrubStatus()).last?.pass, SOON)
      .toBeGreaterThanOrEqual(pass ?? 0);
    return { tenant: "old" };
  },
  async "Webhooks fail"() {
    await night.begun("hooked", 1);
    await night.fails("hooked", "unrecoverable");
    await night.alert("hooked", "RECOVERY_BLOCKED");
    const numbers = async () => (await fetch(`${night.fleet.opsUrl()}/metrics`)).text();
    await expect.poll(numbers, SOON).toMatch(/^fleet_webhooks_total\{.*outcome="refused".*\} 1$/m);
    return { tenant: "hooked" };
  },
  async "The watchdog cannot observe"() {
    return { tenant: "default" };
  },
};

/** The next agent accepts the task, writes the given number of completed items, and fails as well. */
async function failsAgain(tenant: string, completed: number): Promise<void> {
  const fence = await night.accepts(tenant, completed);
  await night.fails(tenant, "crash", { fence, name: "agent-8" });
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
    for (const { command, exit, says } of steps) {
      const filled = command.replaceAll(/\b[A-Z]{4,}\b/g, (name) => String(ids[name] ?? name));
      const result = await night.run(filled, tenant, env);
      expect(result.exit, `${filled}\n${result.out}${result.err}`).toBe(exit);
      for (const quoted of says) expect(`${result.out}${result.err}`, filled).toContain(quoted);
    }
    await after?.();
  });
});
