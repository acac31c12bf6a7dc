// Silent missions of a real fleet: detection by the watchdog, across a kill, and the ways to resume (US-304).

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { cli, environment, printed } from "../../services/cli/process.ts";

const CALLS_MS = 120_000;
const MISSION_SORTIES = 4;
/** Gives a program a terminal of its own. */
const SCRIPT = "/usr/bin/script";

let server: TestFleet;
let client: FleetClient;

beforeAll(async () => {
  server = await startFleet({ FLEET_MISSION_SILENCE: "1s" });
  client = await server.client("dispatch");
});
afterAll(() => server.stop());

const callerEnv = () => ({
  ...{ FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_AGENT_ID: "dispatch" },
  ...{ FLEET_SPOOL_DIR: join(server.home, "spool"), COLUMNS: "160" },
});

async function fleet(...argv: string[]) {
  const { exit, out, err } = await callCli(argv, { env: callerEnv() });
  if (exit !== 0) throw new Error(`fleet ${argv.join(" ")} ended with ${exit}: ${err}`);
  return { out, err };
}

/** A mission with one completed sortie, which wrote a checkpoint, and another one that began after it. */
async function startMission(id: string) {
  const mission = client.mission(id);
  await mission.start({ title: "Implement user authentication" });
  const sorties = Array.from({ length: MISSION_SORTIES }, (_, i) => ({
    title: `part ${i + 1}`,
    files: [`src/part-${i + 1}.ts`],
    assignedTo: `specialist-${i + 1}`,
  }));
  await mission.addSorties(sorties);
  await mission.updateSortie("srt-001", { status: "in_progress" });
  const { checkpointId } = await mission.updateSortie("srt-001", { status: "completed" });
  // The coordinator itself reports, so no specialist counts as working.
  return { mission, checkpointId: checkpointId as string };
}

const isSilent = (id: string) =>
  expect
    .poll(async () => (await client.mission(id).state())?.silence?.checkpoint_id ?? null, { timeout: 60_000 })
    .not.toBeNull();

/** The number of audit entries of one kind. */
async function audited(id: string, op: string): Promise<number> {
  const { entries } = await client.getAudit(id, { limit: 200 });
  return entries.filter(({ entry }) => (JSON.parse(entry) as { op: string }).op === op).length;
}

describe("a silent mission", { timeout: CALLS_MS }, () => {
  test("US-304 is detected once, also after the fleet was killed, until its next activity", async () => {
    const { mission } = await startMission("msn-killed");
    await isSilent("msn-killed");
    // On a busy machine it may have been silent between its first sorties too.
    const lapses = await audited("msn-killed", "mission_lapse");
    expect(lapses).toBeGreaterThan(0);
    await server.kill9();
    await server.start();
    // Another mission shows that the detection works again.
    await startMission("msn-after");
    await isSilent("msn-after");
    expect(await audited("msn-killed", "mission_lapse")).toBe(lapses);
    await mission.updateSortie("srt-002", { status: "in_progress" });
    await expect.poll(() => audited("msn-killed", "mission_lapse"), { timeout: 60_000 }).toBe(lapses + 1);
  });

  test("US-304 is resumed by the start check of its coordinator, or offered in the seed's words", async () => {
    const { checkpointId } = await startMission("msn-start");
    await client.takeTask("msn-start");
    await isSilent("msn-start");
    const offered = (await client.missions.checkForRecovery()).available.find(
      ({ mission }) => mission.mission_id === "msn-start",
    );
    expect(offered).toMatchObject({ checkpointId });
    expect(offered?.message).toBe(`Found checkpoint from ${offered?.checkpointAt}. Resume?`);
    const other = await server.client("dispatch-2");
    const foreign = (await other.missions.recoverable()).map(({ mission }) => mission.mission_id);
    expect(foreign).not.toContain("msn-start");
    const { available, resumed } = await client.missions.checkForRecovery({ autoResume: true });
    expect(available).toEqual([]);
    expect(resumed.map(({ taskId }) => taskId)).toContain("msn-start");
    expect(resumed[0]?.recoveryContext?.mission_summary).toBe("Implement user authentication");
  });

  test("US-304 is named by a command without a terminal, and resumed by --auto-resume", async () => {
    await startMission("msn-cli");
    await isSilent("msn-cli");
    const { err } = await fleet("mission", "show", "msn-cli");
    expect(err).toMatch(
      /^Mission msn-cli was silent\. Found checkpoint from \S+Z\. To resume it: (npx )?fleet resume --mission msn-cli --yes\n/,
    );
    expect((await fleet("missions", "--recoverable")).out).toMatch(/^msn-cli /m);
    const resumed = await fleet("mission", "show", "msn-cli", "--auto-resume");
    expect(resumed.err).toContain("- Restored 4 sorties\n");
    expect(resumed.err).toContain("Recovery complete. Mission resumed.\n");
    expect(resumed.out).not.toContain("Silent since");
  });

  test.skipIf(!existsSync(SCRIPT))("US-304 is offered at a terminal: Resume?", async () => {
    await startMission("msn-terminal");
    await isSilent("msn-terminal");
    // A terminal without a size breaks every line.
    const call = ["stty cols 160 rows 40;", process.execPath, cli, "mission show msn-terminal"].join(" ");
    const child = spawn(SCRIPT, ["-qec", call, "/dev/null"], {
      env: environment({ ...callerEnv(), TERM: "xterm" }),
      stdio: ["pipe", "pipe", "pipe"],
    });
    // It outlives a gentler signal while its input is open. Its terminal ends with it, and so does the command.
    onTestFinished(() => void child.kill("SIGKILL"));
    await printed(child, /Found checkpoint from \S+Z\. Resume\?/);
    child.stdin?.write("y");
    await printed(child, /Recovery complete\. Mission resumed\./);
    expect(await audited("msn-terminal", "mission_resume")).toBe(1);
  });
});
