// Each example of the CLI section of seed 002 against a real fleet: the bare forms, the options and the shape of the output.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 120_000;
const MISSION = "msn-auth";
const ID = "chk-[0-9a-f-]{36}";

let server: TestFleet;
let client: FleetClient;

async function fleet(...argv: string[]): Promise<string> {
  const { url, home } = server;
  const env = { FLEET_URL: url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool"), COLUMNS: "160" };
  const { exit, out, err } = await callCli(argv, { env });
  if (exit !== 0) throw new Error(`fleet ${argv.join(" ")} ended with ${exit}: ${err}`);
  return out;
}

/** The parts of a text, each on lines of its own, match the whole output. */
const shape = (...lines: readonly string[]): RegExp => new RegExp(`^${lines.join("\n")}\n$`);

beforeAll(async () => {
  server = await startFleet();
  client = await server.client("dispatch");
  const mission = client.mission(MISSION);
  await mission.start({ title: "Implement user authentication" });
  const files = ["src/models/user.ts", "src/auth.ts", "src/api/routes.ts", "tests/auth.test.ts"];
  const owner = (i: number) => (i === 3 ? {} : { assignedTo: `Specialist-${i + 1}` });
  await mission.addSorties(files.map((file, i) => ({ title: `part ${i + 1}`, files: [file], ...owner(i) })));
  for (const n of [1, 2]) {
    await mission.updateSortie(`srt-00${n}`, { status: "in_progress" });
    await mission.updateSortie(`srt-00${n}`, { status: "completed" });
  }
  await mission.updateSortie("srt-003", { status: "in_progress", progressNotes: "the routes" });
});
afterAll(() => server.stop());

describe("the examples of seed 002", { timeout: CALLS_MS }, () => {
  test("US-303 002-cli fleet checkpoint, with a note, and of a specific mission", async () => {
    const output = shape(
      `Checkpoint created: ${ID}`,
      `Mission: ${MISSION}`,
      "Progress: 50%",
      String.raw`Sorties: 4 \(2 completed, 1 in_progress, 1 pending\)`,
      "Locks: 0 active",
      "Messages: 0 pending",
    );
    expect(await fleet("checkpoint")).toMatch(output);
    expect(await fleet("checkpoint", "--note", "Before refactoring auth module")).toMatch(output);
    expect(await fleet("checkpoint", "--mission", MISSION)).toMatch(output);
    expect(JSON.parse(await fleet("checkpoint", "--json"))).toMatchObject({
      ...{ status: "committed", task_id: MISSION, lock_count: 0 },
    });
  });

  test("US-303 002-cli fleet checkpoint -q prints the id alone, which names a manual checkpoint with the note", async () => {
    const { url, home } = server;
    const env = { FLEET_URL: url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool") };
    const quiet = await callCli(["checkpoint", "--mission", MISSION, "--note", "at last", "-q"], { env });
    expect(quiet).toEqual({ exit: 0, out: expect.stringMatching(shape(ID)), err: "" });
    const shown = JSON.parse(await fleet("checkpoints", "show", quiet.out.trim(), "--json"));
    expect(shown.metadata.trigger).toEqual({ reason: "manual", details: "at last" });
    const failed = await callCli(["checkpoint", "--mission", "msn-nowhere", "-q"], { env });
    expect(failed).toMatchObject({ exit: 4, out: "" });
    expect(failed.err).toContain("there is no such mission");
  });

  test("US-306 002-cli fleet checkpoints list: columns, total, 10 at most, and --json as an array", async () => {
    const row = String.raw`${ID} +\d{4}-\S+Z +(progress|manual) +\d+% +4`;
    const output = shape(
      `Checkpoints for mission: ${MISSION}`,
      "",
      "ID +TIMESTAMP +TRIGGER +PROGRESS +SORTIES",
      `(${row}\n)+`,
      String.raw`Total: \d+ checkpoints`,
    );
    expect(await fleet("checkpoints", "list")).toMatch(output);
    expect(await fleet("checkpoints", "list", "--mission", MISSION)).toMatch(output);
    for (let n = 0; n < 8; n += 1) await fleet("checkpoint", "-q");
    const listed = JSON.parse(await fleet("checkpoints", "list", "--json")) as {
      metadata: { committed_at: string };
    }[];
    expect(listed).toHaveLength(10);
    const times = listed.map(({ metadata }) => metadata.committed_at);
    expect(times).toEqual(times.toSorted().reverse());
    expect(JSON.parse(await fleet("checkpoints", "list", "--limit", "3", "--json"))).toHaveLength(3);
    expect(await fleet("checkpoints", "list", "--all")).toMatch(/^Checkpoints of all tasks/);
  });

  test("US-306 002-cli fleet checkpoints show", async () => {
    const [newest] = JSON.parse(await fleet("checkpoints", "list", "--limit", "1", "--json")) as [
      { metadata: { checkpoint_id: string } },
    ];
    const shown = await fleet("checkpoints", "show", `chk-${newest.metadata.checkpoint_id}`);
    for (const part of [
      /^Checkpoint: chk-/m,
      /^Created: /m,
      /^Trigger: manual/m,
      /^Progress: 50%$/m,
      /^Mission: msn-auth$/m,
      /^Sorties \(4\):\n {2}srt-001 +completed +Specialist-1 +src\/models\/user\.ts\n/m,
      /^ {2}srt-004 +pending +- +tests\/auth\.test\.ts$/m,
      /^Recovery Context:\n {2}Last Action: Specialist-3 was editing src\/api\/routes\.ts .*\n {2}Next Steps:\n {4}- /m,
      /^ {2}Blockers: None\n {2}Files Modified: src\/models\/user\.ts, src\/auth\.ts, src\/api\/routes\.ts$/m,
    ])
      expect(shown).toMatch(part);
  });

  test("US-306 002-cli fleet checkpoints show --json has the time, the trigger, the progress and the sorties", async () => {
    const id = (await fleet("checkpoint", "-q")).trim();
    const shown = JSON.parse(await fleet("checkpoints", "show", id, "--json"));
    expect(shown).toMatchObject({
      metadata: {
        checkpoint_id: id.replace("chk-", ""),
        task_id: MISSION,
        committed_at: expect.stringMatching(/^\d{4}-\S+Z$/),
        trigger: { reason: "manual" },
      },
      execution_state: { progress_percent: 50 },
      fleet: {
        mission_id: MISSION,
        progress_percent: 50,
        sorties: [1, 2, 3, 4].map((n) => expect.objectContaining({ id: `srt-00${n}` })),
        active_locks: [],
        pending_messages: [],
        recovery_context: { next_steps: expect.any(Array) },
      },
    });
  });

  test("US-305 002-cli fleet resume: --dry-run, --checkpoint, -y, and the prompt in a file", async () => {
    const id = (await fleet("checkpoint", "-q")).trim();
    const point = [
      `Resuming from checkpoint: ${id}`,
      `Mission: ${MISSION} - "Implement user authentication"`,
      "",
      "Recovery Context:",
      "- Last action: Specialist-3 was editing src/api/routes.ts .*",
      String.raw`- Progress: 50% \(2/4 sorties complete\)`,
      "",
      "Next Steps:",
      String.raw`1\. Complete "part 3" .*`,
      String.raw`2\. Assign "part 4" .*`,
      "",
      "Blockers:",
      "- None",
      "",
      "Files Modified:",
      "- src/models/user.ts",
      "- src/auth.ts",
      "- src/api/routes.ts",
      "",
    ];
    const restored = ["4 sorties", "0 locks", "0 messages"];
    const plan = [
      "Would restore:",
      ...restored.map((one) => `- ${one}`),
      "",
      String.raw`Nothing was changed\.`,
    ];
    expect(await fleet("resume", "--dry-run", "--checkpoint", id)).toMatch(shape(...point, ...plan));
    const done = [
      String.raw`Restoring state\.\.\.`,
      "- Restored 4 sorties",
      "- Re-acquired 0 locks",
      "- Requeued 0 messages",
      "",
      String.raw`Recovery complete\. Mission resumed\.`,
    ];
    expect(await fleet("resume", "--checkpoint", id, "-y")).toMatch(shape(...point, ...done));
    const file = join(server.home, "prompt.md");
    const resumed = JSON.parse(await fleet("resume", "-y", "--out", file, "--json")) as { prompt: string };
    expect(resumed).toMatchObject({
      restored: { sorties: expect.any(Number) },
      recovery_context: { mission_summary: "Implement user authentication" },
    });
    expect(resumed.prompt).toMatch(
      /^## Recovery Context\n\nYou are resuming a mission after context compaction\.\n/,
    );
    expect(readFileSync(file, "utf8")).toBe(resumed.prompt);
  });

  test("002-cli fleet resume of a task prints its prompt, and restores nothing", async () => {
    const execution_state = { phase: "testing" as const, pending_items: ["write the tests"] };
    const written = await client
      .task("plain-task")
      .checkpoint({ metadata: { agent_type: "qa" }, execution_state });
    const id = `chk-${written.checkpointId}`;
    for (const argv of [["plain-task"], ["--checkpoint", id]]) {
      const prompt = await fleet("resume", ...argv, "--no-workspace");
      expect(prompt).toMatch(/^# Continue task plain-task\n/);
      expect(prompt).not.toContain("Restor");
    }
  });

  test("US-308 002-cli fleet checkpoints prune: preview, and the confirmation that a script must give", async () => {
    const rules = ["--mission", MISSION, "--older-than", "3", "--keep", "1"];
    expect(await fleet("checkpoints", "prune", ...rules, "--dry-run")).toMatch(
      /^Pruning checkpoints older than 3 days \(keeping 1 per task\)\.\.\.\n\nNone\.\n$/,
    );
    expect(await fleet("checkpoints", "prune", ...rules, "-y")).toContain("None.");
  });

  test("US-307 a specialist continues its sortie with its own recovery context", async () => {
    const agent = await server.client("Specialist-3");
    const specialist = agent.missions.specialist(MISSION);
    const done: string[] = [];
    expect(await specialist.reportProgress("no sortie yet")).toBeNull();
    await specialist.onAssignment("srt-003", {
      begin: async () => void done.push("begun"),
      resume: async (sortie, { context, prompt }) => {
        done.push(`resumed ${sortie.sortie_id}: ${context.last_action}`);
        expect(prompt).toContain("> **Last Action**: the routes\n");
        expect(prompt).toContain("### Files Modified\n> - src/api/routes.ts\n");
      },
    });
    expect(done).toEqual(["resumed srt-003: the routes"]);
    expect(await client.mission(MISSION).locks()).toEqual([]);
    await specialist.reportProgress("the routes are tested");
    expect(await specialist.recoveryContext()).toMatchObject({
      last_action: "the routes are tested",
      next_steps: ['Complete "part 3" (srt-003, Specialist-3)'],
    });
    // Its files are locked again while it works; one that another agent holds is a blocker.
    const files = ["src/api/routes.ts", "src/held.ts"];
    await client.mission(MISSION).updateSortie("srt-003", { files });
    const foreign = await client.mission(MISSION).lock("src/held.ts");
    const holders = async () =>
      (await client.mission(MISSION).locks()).map(({ path, agent_id, sortie_id }) => [
        path,
        agent_id,
        sortie_id,
      ]);
    const blocker = /^The lock on src\/held\.ts is held by dispatch until \S+Z$/;
    const { blockers } = await specialist.onAssignment("srt-003", {
      begin: async () => void done.push("begun"),
      resume: async (_sortie, { context, prompt, locks }) => {
        expect(locks.map(({ path }) => path)).toEqual(["src/api/routes.ts"]);
        expect(context.blockers).toEqual([expect.stringMatching(blocker)]);
        expect(prompt).toContain("The lock on src/held.ts is held by dispatch until ");
        expect(await holders()).toEqual([
          ["src/api/routes.ts", "Specialist-3", "srt-003"],
          ["src/held.ts", "dispatch", null],
        ]);
      },
    });
    expect(blockers).toEqual([expect.stringMatching(blocker)]);
    expect(await holders()).toEqual([["src/held.ts", "dispatch", null]]);
    await foreign.release();
    // A sortie without work begins.
    await client.mission(MISSION).updateSortie("srt-004", { assignedTo: "Specialist-3" });
    await specialist.onAssignment("srt-004", {
      begin: async ({ sortie_id }) => void done.push(`begun ${sortie_id}`),
      resume: async () => void done.push("resumed"),
    });
    expect(done.at(-1)).toBe("begun srt-004");
    await expect(
      specialist.onAssignment("srt-001", { begin: async () => {}, resume: async () => {} }),
    ).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});
