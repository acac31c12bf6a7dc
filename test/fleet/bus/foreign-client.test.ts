/** A client in another language, without any part of Fleet, works with issued credentials and only within them. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { callCli } from "../../services/cli/call.ts";

const PROGRAM = join(projectRoot, "test/fleet/bus/foreign-client.py");
const TASK = "foreign";
const run = promisify(execFile);
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("foreign-client.test.ts is skipped: there is no python3\n");

let fleet: TestFleet;
const folder = mkdtempSync(join(tmpdir(), "fleet-foreign-"));

beforeAll(async () => {
  if (hasPython) fleet = await startFleet();
});
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function runClient(credentials: string, tenant: string, agent: string) {
  const { hostname, port } = new URL(fleet.url);
  const { stdout } = await run("python3", [PROGRAM, hostname, port, credentials, tenant, agent, TASK]);
  return JSON.parse(stdout) as Record<string, Record<string, unknown>>;
}

test.skipIf(!hasPython)(
  "a Python client writes and reads its task, and the server refuses it everything else",
  async () => {
    const file = join(folder, "snake.creds");
    const issued = await callCli(["access", "issue", "--agent", "snake", "--out", file], {
      env: { FLEET_HOME: fleet.home },
    });
    expect({ exit: issued.exit, err: issued.err }).toEqual({ exit: 0, err: "" });
    const { created, read, history, invalid, refused, stillServed } = await runClient(
      file,
      "default",
      "snake",
    );
    expect(created).toMatchObject({ status: "committed", task_id: TASK, seq: 1, version: 1 });
    const checkpoint = { execution_state: { goal: "Zwölf Rechnungen" } };
    expect(read).toMatchObject({ status: "ok", result: { checkpoint } });
    expect(history).toMatchObject({ status: "ok", result: { checkpoints: [checkpoint] } });
    expect(invalid).toMatchObject({ status: "error", error: { code: "INVALID" } });
    const violation = /^-ERR 'Permissions Violation for (Publish|Subscription) to ".+"/;
    expect(Object.entries(refused ?? {}).filter(([, error]) => !violation.test(String(error)))).toEqual([]);
    expect(Object.keys(refused ?? {})).toHaveLength(23);
    expect(stillServed).toMatchObject({ status: "ok" });

    for (const tenant of ["default", "elsewhere"]) {
      const operator = await fleet.client("operator", tenant);
      expect(await operator.getTask("stolen")).toBeNull();
    }
    const operator = await fleet.client("operator");
    expect(await operator.getTask(TASK)).toMatchObject({ seq: 1, audit_seq: 1, agent_id: "snake" });
    expect(await operator.admin.queueStatus()).toMatchObject({ depth: 0 });
  },
  60_000,
);

test.skipIf(!hasPython)(
  "the server closes the connection of a client without its key",
  async () => {
    const [own, other] = ["own", "other"].map((name) => join(folder, `${name}.creds`)) as [string, string];
    const env = { FLEET_HOME: fleet.home };
    await callCli(["access", "issue", "--agent", "own", "--out", own], { env });
    await callCli(["access", "issue", "--agent", "other", "--out", other], { env });
    const [jwt, seed] = [readFileSync(other, "utf8"), readFileSync(own, "utf8")];
    const mixed = join(folder, "mixed.creds");
    writeFileSync(
      mixed,
      jwt.replace(/(?<=NKEY SEED-----\n)\S+/, /NKEY SEED-----\n(\S+)/.exec(seed)?.[1] ?? ""),
    );
    await expect(runClient(mixed, "default", "other")).rejects.toThrow(/Authorization Violation|closed/);
  },
  60_000,
);
