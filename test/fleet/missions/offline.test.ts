// The commands of missions while the fleet is away: a checkpoint waits on this machine, and reads use the files of the mirror.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call, and each waits for the fleet first. */
const LAST = { timeout: 240_000 };
const PATIENT = { deadlineMs: 60_000 };
const MISSION = "msn-offline";
const ID = "chk-([0-9a-f-]{36})";

let server: TestFleet;
let client: FleetClient;
/** The newest checkpoint before the fleet goes away. */
let recorded: string;

const fleet = (...argv: string[]) => fleetAt(server.home, ...argv);

function fleetAt(home: string, ...argv: string[]) {
  const env = { FLEET_URL: server.url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(server.home, "spool") };
  const timeout = argv.includes("--timeout") ? [] : ["--timeout", "500ms"];
  return callCli([...argv, ...timeout], { env: { ...env, COLUMNS: "160" } });
}

const file = (id: string) => join(server.home, "checkpoints", MISSION, `chk-${id}.json`);

beforeAll(async () => {
  server = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  client = await server.client("dispatch");
  const mission = client.mission(MISSION);
  await mission.start({ title: "Implement user authentication" }, PATIENT);
  const sorties = ["a", "b"].map((name) => ({
    title: name,
    files: [`src/${name}.ts`],
    assignedTo: `s-${name}`,
  }));
  await mission.addSorties(sorties, PATIENT);
  await mission.updateSortie("srt-001", { status: "in_progress", progressNotes: "half done" }, PATIENT);
  const older = (await mission.checkpoint(PATIENT)).checkpointId;
  recorded = (await mission.checkpoint({ ...PATIENT, note: "newest" })).checkpointId;
  for (const id of [older, recorded])
    await vi.waitUntil(() => existsSync(file(id)), { timeout: 60_000, interval: 50 });
  await server.terminate();
}, 180_000);
afterAll(() => server.stop());

test(
  "reads of a mission work from its files, with a warning, and a file that was edited is left out",
  LAST,
  async () => {
    const shown = await fleet("mission", "show", MISSION);
    expect(shown).toMatchObject({ exit: 0 });
    expect(shown.err).toContain("warning: the fleet does not answer; this is from the files of its mirror");
    expect(shown.out).toMatch(/^Mission: msn-offline - "Implement user authentication"\nAs of: /);
    expect(shown.out).toMatch(/^ {2}srt-001 +in_progress +s-a +src\/a\.ts$/m);
    const current = await fleet("mission", "show", "--json");
    expect(JSON.parse(current.out)).toMatchObject({ mission_id: MISSION, checkpoint_id: recorded });

    const listed = await fleet("checkpoints", "list", "--mission", MISSION);
    expect(listed.out).toMatch(/^Checkpoints for mission: msn-offline\n\nID +TIMESTAMP/);
    expect(listed.out).toContain("Total: 2 checkpoints");
    expect(JSON.parse((await fleet("checkpoints", "list", "--limit", "1", "--json")).out)).toMatchObject([
      { metadata: { checkpoint_id: recorded } },
    ]);
    const one = await fleet("checkpoints", "show", `chk-${recorded}`);
    expect([one.exit, one.out]).toEqual([0, expect.stringMatching(/^Trigger: manual \(newest\)$/m)]);

    const preview = await fleet("resume", "--mission", MISSION, "--dry-run");
    expect(preview.out).toContain(`Resuming from checkpoint: chk-${recorded}\nMission: msn-offline - `);
    expect(preview.out).toContain("Would restore:\n- 2 sorties\n");
    expect((await fleet("resume", "--dry-run", "--json")).out).toContain(`"checkpoint_id": "${recorded}"`);
    expect(await fleet("resume", "--mission", MISSION, "--yes")).toMatchObject({ exit: 69, out: "" });

    const copy = readFileSync(file(recorded), "utf8");
    writeFileSync(file(recorded), copy.replaceAll("half done", "forged"));
    const afterEdit = await fleet("mission", "show", MISSION);
    writeFileSync(file(recorded), copy);
    expect(afterEdit.out).not.toContain("forged");
    expect(afterEdit.out).not.toContain(recorded);
  },
);

test("the files of another fleet, and a mission without files, answer nothing", LAST, async () => {
  expect(await fleet("mission", "show", "msn-unknown")).toMatchObject({ exit: 69, out: "" });
  expect(await fleet("mission", "list")).toMatchObject({ exit: 69, out: "" });
  const other = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  try {
    expect(await fleetAt(other.home, "mission", "show", MISSION)).toMatchObject({ exit: 69, out: "" });
  } finally {
    await other.stop();
  }
});

test(
  "US-303 a checkpoint of a mission waits while the fleet is away, and is applied once with its id",
  LAST,
  async () => {
    const spooled = await fleet("checkpoint", "--mission", MISSION, "--note", "offline");
    expect(spooled).toMatchObject({ exit: 0, err: "" });
    expect(spooled.out).toMatch(
      new RegExp(`^Spooled, not yet sent: checkpoint to be created ${ID}\nTask: ${MISSION}\n`),
    );
    const current = JSON.parse((await fleet("checkpoint", "--json")).out);
    expect(current).toMatchObject({ status: "spooled", task_id: MISSION });
    const ofAgent = await client.mission(MISSION).onError(new Error("no fleet"), { deadlineMs: 500 });
    expect(ofAgent).toMatchObject({ outcome: "spooled", taskId: MISSION });
    await server.start();
    const flush = async () => (await fleet("spool", "flush", "--timeout", "30s")).exit;
    await expect.poll(flush, { timeout: 120_000 }).toBe(0);
    const ids = [new RegExp(ID).exec(spooled.out)?.[1], current.checkpoint_id, ofAgent.checkpointId];
    const made = async () => {
      const { checkpoints } = await client.getCheckpointHistory(MISSION, { ...PATIENT, order: "oldest" });
      return checkpoints.slice(2).map(({ metadata }) => metadata.checkpoint_id);
    };
    await expect.poll(async () => (await made()).toSorted(), { timeout: 120_000 }).toEqual(ids.toSorted());
    expect(await flush()).toBe(0);
    expect(await made()).toHaveLength(3);
    const { checkpoint } = await client.latest(MISSION, PATIENT);
    expect(checkpoint?.fleet?.sorties).toHaveLength(2);
  },
);
