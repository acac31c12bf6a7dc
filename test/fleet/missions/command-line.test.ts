// Missions at the command line, against a standalone fleet: start, sorties, checkpoints and resumption (US-303, US-305, US-306).

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 120_000;

let server: TestFleet;

async function fleet(...argv: string[]): Promise<string> {
  const { url, home } = server;
  const env = { FLEET_URL: url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool"), COLUMNS: "160" };
  const { exit, out, err } = await callCli(argv, { env });
  if (exit !== 0) throw new Error(`fleet ${argv.join(" ")} ended with ${exit}: ${err}`);
  return out;
}

const refused = async (...argv: string[]): Promise<string> =>
  fleet(...argv).then(
    () => "it was accepted",
    (error: Error) => error.message,
  );

const report = (agent: string, sortie: string, ...change: string[]) =>
  fleet("--agent", agent, "sortie", "update", sortie, ...change);

beforeAll(async () => {
  server = await startFleet();
});
afterAll(() => server.stop());

describe("a mission", { timeout: CALLS_MS }, () => {
  test("is started, worked on, recorded, restored and ended", async () => {
    expect(await refused("mission", "show")).toContain("there is no active mission");
    await fleet("mission", "start", "msn-auth", "--title", "Implement user authentication");
    for (const n of ["1", "2", "3", "4"]) {
      await fleet("sortie", "add", `part ${n}`, "--files", `src/part-${n}.ts`, "--assign", `specialist-${n}`);
    }
    await report("specialist-1", "srt-001", "-s", "in_progress");
    const reached = await report("specialist-1", "srt-001", "-s", "completed");
    expect(reached).toMatch(
      /^Sortie updated: srt-001\nMission: msn-auth, in_progress\nProgress: 25%\nCheckpoint created: chk-/,
    );
    await report("specialist-2", "srt-002", "-s", "in_progress", "--notes", "half done");

    // US-303: of the current mission and of a named one, with a note; the id alone for scripts.
    const recorded = await fleet("checkpoint", "--mission", "--note", "before the refactoring");
    expect(recorded).toMatch(
      /^Checkpoint created: chk-\S+\nMission: msn-auth\nProgress: 25%\nSorties: 4 \(1 completed, 1 in_progress, 2 assigned\)\nLocks: 0 active\nMessages: 0 pending\n$/,
    );
    const id = (await fleet("checkpoint", "--mission", "msn-auth", "--note", "again", "-q")).trim();
    expect(id).toMatch(/^chk-/);

    // US-306: newest first, with trigger, progress and the number of sorties; as JSON an array.
    const listed = await fleet("checkpoints", "list", "--mission");
    expect(listed).toMatch(
      /^Checkpoints for mission: msn-auth\n\nID +TIMESTAMP +TRIGGER +PROGRESS +SORTIES\nchk-\S+ +\S+Z +manual +25% +4\n/,
    );
    expect(listed).toContain("\n\nTotal: 3 checkpoints\n");
    const array = JSON.parse(
      await fleet("checkpoints", "list", "--mission", "msn-auth", "--json"),
    ) as unknown[];
    expect(array).toHaveLength(3);
    const shown = await fleet("checkpoints", "show", id);
    expect(shown).toContain("Sorties (4):");
    expect(shown).toMatch(/srt-002 +in_progress +specialist-2 +src\/part-2\.ts/);

    // US-305: a preview changes nothing, a confirmation is needed, and the output says what was restored.
    await report("specialist-2", "srt-002", "-s", "completed");
    const preview = await fleet("resume", "--mission", "msn-auth", "--checkpoint", id, "--dry-run");
    expect(preview).toMatch(
      /^Resuming from checkpoint: chk-\S+\nMission: msn-auth - "Implement user authentication"\n/,
    );
    expect(preview).toContain(
      '- Last action: specialist-2 was editing src/part-2.ts for "part 2": half done\n- Progress: 25% (1/4 sorties complete)\n',
    );
    expect(preview).toContain("Nothing was changed.");
    expect(await refused("resume", "msn-auth", "--checkpoint", id)).toContain("give --yes");
    const resumed = await fleet("resume", "msn-auth", "--checkpoint", id, "--yes");
    expect(resumed).toContain(
      "Restoring state...\n- Restored 4 sorties\n- Re-acquired 0 locks\n- Requeued 0 messages\n\nRecovery complete. Mission resumed.\n",
    );
    expect(await fleet("sorties", "--status", "in_progress")).toMatch(/^srt-002 +in_progress +specialist-2/m);

    // JSON has the names of the protocol.
    const noted = ["sortie", "update", "srt-003", "--notes", "read the code", "--json"];
    const updated = JSON.parse(await fleet("--agent", "specialist-3", ...noted));
    expect(Object.keys(updated).filter((name) => /[A-Z]/.test(name))).toEqual([]);
    expect(updated).toMatchObject({ task_id: "msn-auth" });
    expect(await fleet("missions", "--active")).toMatch(/^msn-auth +in_progress +25% +4 /m);
    expect(await refused("mission", "update", "msn-auth", "-s", "completed")).toContain("open sorties");
    await fleet("mission", "update", "msn-auth", "-s", "cancelled");
    expect(await fleet("mission", "show", "msn-auth")).toContain("Status: cancelled");
    // A task that is no active mission has a prompt.
    expect(await fleet("resume", "msn-auth", "--style", "mission", "--no-workspace")).toContain(
      "# Recovery Context of mission task",
    );
  });

  test("with an owner needs its fence, unless the caller is the owner", async () => {
    const client = await server.client("dispatch");
    const { fence } = await client.takeTask("msn-owned");
    await client.mission("msn-owned", { fence }).start({ title: "owned" });
    const add = ["sortie", "add", "part 1", "--mission", "msn-owned"];
    expect(await refused(...add)).toContain("its fence is needed");
    await fleet(...add, "--fence", String(fence));
    await fleet("--agent", "dispatch", ...add);
    expect((await client.mission("msn-owned").sorties()).sorties).toHaveLength(2);
  });
});
