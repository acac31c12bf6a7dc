// `fleet alerts` against a standalone fleet: a task that no agent accepts raises an alert, an operator acknowledges it, and
// the commands in the alert work.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AlertPage } from "../../../shared/protocol/alert-queries.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { printed, type Result, resultOf, startCli } from "../../services/cli/process.ts";

const SOON = { timeout: 60_000, interval: 200 };

let server: TestFleet;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-alerts-"));
  const policy = join(folder, "policy.json");
  writeFileSync(policy, JSON.stringify({ defaults: { offer: { deadline_ms: 1_000, max_attempts: 1 } } }));
  server = await startFleet({ FLEET_LOG_LEVEL: "warn", FLEET_POLICY: policy });
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const callOf = (agent: string) => ({
  env: {
    FLEET_URL: server.url,
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: agent,
  },
});
const fleet = (args: readonly string[], agent = "one"): Promise<Result> => callCli(args, callOf(agent));

const checkpoint = (task: string): Promise<Result> =>
  fleet(["checkpoint", "-t", task, "--type", "implementation", "--phase", "implementing", "--next", "test"]);

const open = async (): Promise<string[]> => {
  const { out } = await fleet(["alerts", "list", "--json"]);
  return (JSON.parse(out) as AlertPage).alerts.map(({ alert }) => alert.id);
};

test("a task that no agent accepts raises an alert, which stays open until it is acknowledged", async () => {
  expect(await fleet(["alerts", "list"])).toMatchObject({
    exit: 0,
    out: expect.stringMatching(/^No open alerts/),
  });
  expect(await checkpoint("auth")).toMatchObject({ exit: 0 });
  expect(await fleet(["handoff", "create", "auth", "--to", "qa"])).toMatchObject({ exit: 0 });
  await expect.poll(open, SOON).toHaveLength(1);
  const id = (await open())[0] as string;
  expect(id).toMatch(/^default\/auth\/\d+$/);

  const listed = await fleet(["alerts", "list", "--task", "auth", "--severity", "critical"]);
  expect(listed.out).toMatch(
    new RegExp(`\\n${id} +\\S.* critical +Task auth is blocked: no agent of type qa accepted any`),
  );
  expect((await fleet(["status"])).out).toMatch(/^alerts +open +1: .*fleet alerts list$/m);

  // The command in the alert works as it is printed.
  const shown = await fleet(["alerts", "show", id]);
  const command = /\n {2}(?:npx )?fleet (handoff show \S+)\n/.exec(shown.out)?.[1] as string;
  expect((await fleet(command.split(" "))).out).toContain("Why it failed: no_agent: ");

  const acked = await fleet(["alerts", "ack", id, "--note", "starting a tester"], "anna");
  expect(acked).toMatchObject({ exit: 0, out: `Acknowledged: ${id}\n`, err: "" });
  expect(await open()).toEqual([]);
  expect((await fleet(["alerts", "list", "--all"])).out).toMatch(new RegExp(`${id} .* anna +Task auth`));
  const second = await fleet(["alerts", "ack", id], "ben");
  expect(second).toMatchObject({
    exit: 0,
    out: expect.stringMatching(
      new RegExp(`^Already acknowledged: ${id}, by anna, \\S+ \\(.*\\): starting a tester\n$`),
    ),
  });
  expect((await fleet(["status"])).out).toMatch(/^alerts +ok +none open$/m);
  // The second acknowledgement had no effect, so it has no entry.
  expect((await fleet(["audit", "tenant"])).out).toMatch(new RegExp(` alert_ack +anna.* ${id} `));
  const verified = await fleet(["audit", "tenant", "--verify", "--json"]);
  // The other entries are about the start of the fleet: its signing key and its policies.
  expect(JSON.parse(verified.out)).toMatchObject({ ok: true, entries: 3, problems: [] });

  const numbers = await (await fetch(`${server.opsUrl()}/metrics`)).text();
  expect(numbers).toMatch(/^fleet_alerts_total\{.*type="HANDOFF_FAILED",severity="critical".*\} 1$/m);
}, 180_000);

test("an alert is resolved when its task continues", async () => {
  expect(await checkpoint("search")).toMatchObject({ exit: 0 });
  expect(await fleet(["handoff", "create", "search", "--to", "qa"])).toMatchObject({ exit: 0 });
  await expect.poll(open, SOON).toHaveLength(1);
  const [id = ""] = await open();
  expect(await checkpoint("search")).toMatchObject({ exit: 0 });
  expect(await open()).toEqual([]);
  expect((await fleet(["alerts", "list", "--all"])).out).toMatch(new RegExp(`${id} .* yes +- +Task`));
  expect((await fleet(["alerts", "show", id])).out).toContain("\nResolved: ");
  expect((await fleet(["status"])).out).toMatch(/^alerts +ok +none open$/m);
}, 180_000);

test("a followed list prints an alert when it arrives", async () => {
  // A process, because a signal ends it.
  const following = startCli(["alerts", "list", "--follow", "--task", "billing", "--json"], callOf("one"));
  const result = resultOf(following);
  await printed(following, /Following/);
  const arrival = printed(following, /^\{.*\}$/m);
  expect(await checkpoint("billing")).toMatchObject({ exit: 0 });
  expect(await fleet(["handoff", "create", "billing", "--to", "qa"])).toMatchObject({ exit: 0 });
  expect(JSON.parse((await arrival)[0])).toMatchObject({ subject: "billing", severity: "critical" });
  following.kill("SIGINT");
  expect((await result).exit).toBe(0);
}, 180_000);

test("every failure has its exit code, and every help its examples", async () => {
  expect(await fleet(["alerts", "show", "default/auth/999"])).toMatchObject({ exit: 4, out: "" });
  const unknown = await fleet(["alerts", "ack", "default/auth/999"]);
  expect(unknown).toMatchObject({ exit: 4, out: "", err: expect.stringContaining("fleet alerts list`") });
  expect(await fleet(["alerts", "ack", "17"])).toMatchObject({ exit: 65, out: "" });
  expect(await fleet(["alerts", "ack"])).toMatchObject({ exit: 64, out: "" });
  expect(await fleet(["alerts", "list", "--severity", "mild"])).toMatchObject({ exit: 64, out: "" });
  for (const command of ["list", "show", "ack"]) {
    expect((await fleet(["alerts", command, "--help"])).out).toContain("Examples:");
  }
}, 180_000);
