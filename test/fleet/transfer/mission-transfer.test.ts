// Exports and imports of missions between two real fleets: while agents work, tampered with, through kills, and of earlier formats.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { recordLines } from "../../../services/cli/commands/transfer/mission-lines.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { exportedRecordHash } from "../../../shared/transfer/record-verifier.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { callCli } from "../../services/cli/call.ts";
import { callerEnvironment, commandsOf, json, linesIn } from "./commands.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 180_000;
const PATIENT = { deadlineMs: 60_000 };
const ENV = { FLEET_SCRUB_EVERY: "off", FLEET_GATEWAY_PORT: "-1", FLEET_RETENTION_EVERY: "off" };

/** A line whose members are known to the test alone. */
// biome-ignore lint/suspicious/noExplicitAny: each kind of line has other members.
type Line = any;

let source: TestFleet;
let target: TestFleet;
let dispatch: FleetClient;
let there: FleetClient;
let folder: string;

const from = commandsOf(() => source);
const into = commandsOf(() => target);
const file = (name: string): string => join(folder, name);
const linesOf = (name: string) => linesIn<Line>(file(name));

/** Finished, running and failed sorties, a lock with a waiter, messages that are delivered and queued. */
async function work(id: string): Promise<void> {
  const mission = dispatch.mission(id);
  await mission.start({ title: "Implement user authentication" }, PATIENT);
  const agents = ["worker-1", "worker-2", "worker-3"];
  await mission.addSorties(
    agents.map((assignedTo, i) => ({ sortieId: `srt-00${i + 1}`, title: `part ${i + 1}`, assignedTo })),
    PATIENT,
  );
  const [first, second, third] = (await Promise.all(agents.map((agent) => source.client(agent)))).map(
    (client) => client.mission(id),
  ) as [typeof mission, typeof mission, typeof mission];
  for (const [sortie, worker] of [first, second, third].entries())
    await worker.updateSortie(`srt-00${sortie + 1}`, { status: "in_progress" }, PATIENT);
  await first.updateSortie("srt-001", { status: "completed" }, PATIENT);
  await third.updateSortie("srt-003", { status: "failed", progressNotes: "no access" }, PATIENT);
  await second.acquireLock("src/auth.ts", { purpose: "routes", timeoutMs: 600_000, ...PATIENT });
  const { messageId } = await mission.send(
    { to: "worker-1", subject: "Review", body: "before noon" },
    PATIENT,
  );
  await first.acknowledge(messageId, PATIENT);
  await mission.send({ to: ["worker-2"], subject: "Your turn", body: "the routes are free" }, PATIENT);
  await mission.checkpoint({ note: "half way", ...PATIENT });
}

/** A line as format 2 has it. */
function earlier(line: Line): Line {
  if (line.kind === "header") return { ...line, format: 2 };
  const { records: _, records_lost: _lost, ...rest } = line;
  return rest;
}

/** The text of the lines, with the counts and digests that they have together. */
function sealed(lines: readonly Line[]): string {
  const [whole, ofTask] = [createHash("sha256"), createHash("sha256")];
  return lines
    .map((line, i) => {
      if (line.kind === "task_end") line.digest = ofTask.digest("hex");
      if (line.kind === "trailer") [line.lines, line.digest] = [i, whole.copy().digest("hex")];
      const text = `${JSON.stringify(line)}\n`;
      whole.update(text);
      if (line.kind !== "header" && line.kind !== "task_end" && line.kind !== "trailer") ofTask.update(text);
      return text;
    })
    .join("");
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-missions-"));
  [source, target] = await Promise.all([startFleet(ENV), startFleet(ENV)]);
  dispatch = await source.client("dispatch");
  there = await target.client("dispatch");
}, 90_000);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await Promise.all([source.stop(), target.stop()]);
});

describe("fleet export and import of a mission", { timeout: CALLS_MS }, () => {
  test("every command on missions works in the new fleet, and a second export has the same records", async () => {
    await work("msn-auth");
    expect(await from("export", "--task", "msn-auth", "--out", file("there.jsonl"))).toMatchObject({
      exit: 0,
      err: "",
    });
    const report = await json(from("export", "verify", file("there.jsonl"), "--json"));
    expect(report).toMatchObject({ exit: 0, ok: true, records_lost: 0, missions_without_records: 0 });
    expect(report.records).toBe(linesOf("there.jsonl").filter(({ kind }) => kind === "record").length);
    const imported = await json(into("import", file("there.jsonl"), "--json"));
    expect(imported).toMatchObject({
      exit: 0,
      imported: ["msn-auth"],
      without_records: [],
      records: report.records,
    });
    const shown = await json(into("mission", "show", "msn-auth", "--json"));
    expect(shown).toMatchObject({ exit: 0, status: "in_progress", title: "Implement user authentication" });
    const { sorties } = await json(into("sortie", "list", "--mission", "msn-auth", "--json"));
    expect(sorties.map((one: Line) => [one.sortie_id, one.status, one.progress_notes])).toEqual([
      ["srt-001", "completed", null],
      ["srt-002", "in_progress", null],
      ["srt-003", "failed", "no access"],
    ]);
    expect(await there.mission("msn-auth").locks(PATIENT)).toEqual([]);
    const worker = (await target.client("worker-2")).mission("msn-auth");
    const { messages } = await worker.mailbox(PATIENT);
    expect(messages).toMatchObject([{ subject: "Your turn", body: "the routes are free", state: "queued" }]);
    const read = await into("message", "read", "--mission", "msn-auth", "--agent", "worker-2");
    expect(read).toMatchObject({ exit: 0, err: "" });
    expect(read.out).toContain("the routes are free");
    await worker.acknowledge(String(messages[0]?.message_id), PATIENT);
    expect(await there.verifyAudit("msn-auth")).toMatchObject({ ok: true });
    expect(await json(into("scrub", "start", "--wait", "--json"))).toMatchObject({ exit: 0, findings: [] });

    expect(await into("export", "--task", "msn-auth", "--out", file("back.jsonl"))).toMatchObject({
      exit: 0,
      err: "",
    });
    expect(await into("export", "verify", file("back.jsonl"))).toMatchObject({ exit: 0 });
    const names = (name: string): string[] =>
      linesOf(name).flatMap((line) => (line.kind === "record" ? [line.name] : []));
    expect(names("back.jsonl").toSorted()).toEqual(names("there.jsonl").toSorted());
    expect(await into("import", file("back.jsonl"), "--tenant", "third")).toMatchObject({ exit: 0, err: "" });
    const third = await json(into("mission", "show", "msn-auth", "--tenant", "third", "--json"));
    expect(third).toMatchObject({
      exit: 0,
      status: "in_progress",
      sorties: { completed: 1, failed: 1, in_progress: 1 },
    });

    const resumed = await into("resume", "--mission", "msn-auth", "--yes");
    expect(resumed).toMatchObject({ exit: 0 });
    expect((await there.mission("msn-auth").locks(PATIENT)).map(({ path }) => path)).toEqual(["src/auth.ts"]);
    expect(await json(into("scrub", "start", "--wait", "--json"))).toMatchObject({ exit: 0, findings: [] });
    expect(await json(into("import", file("there.jsonl"), "--json"))).toMatchObject({
      identical: ["msn-auth"],
    });
  });

  test("imports nothing of a file with a tampered record", async () => {
    await work("msn-forged");
    await from("export", "--task", "msn-forged", "--no-artifacts", "--out", file("sound.jsonl"));
    const lines = linesOf("sound.jsonl");
    const at = (name: string): number =>
      lines.findIndex((line) => line.kind === "record" && line.name === name);
    const edit = (name: string, change: (line: Line) => void): Line[] => {
      const line = structuredClone(lines[at(name)]);
      change(line);
      return lines.with(at(name), line);
    };
    const flipped = (bytes: string): string => {
      const copy = Buffer.from(bytes, "base64");
      copy[copy.length - 4]! ^= 1;
      return copy.toString("base64");
    };
    const cases: Record<string, [number | null, Line[]]> = {
      "a flipped bit": [
        at("sortie/srt-001") + 1,
        edit("sortie/srt-001", (line) => (line.bytes = flipped(line.bytes))),
      ],
      "the record of another": [
        at("mission") + 1,
        edit("mission", (line) => (line.bytes = lines[at("locks")].bytes)),
      ],
      "a name that no entry states": [
        at("mission") + 1,
        edit("mission", (line) => (line.name = "sortie/srt-999")),
      ],
      "a record less": [null, lines.toSpliced(at("sortie/srt-002"), 1)],
      "a record twice": [at("mission") + 2, lines.toSpliced(at("mission"), 0, lines[at("mission")])],
    };
    for (const [name, [line, edited]] of Object.entries(cases)) {
      writeFileSync(file("forged.jsonl"), edited.map((one) => `${JSON.stringify(one)}\n`).join(""));
      const verified = await from("export", "verify", file("forged.jsonl"), "--json");
      expect([name, verified.exit]).toEqual([name, 8]);
      if (line !== null) expect([name, JSON.parse(verified.out).line]).toEqual([name, line]);
      const refused = await into("import", file("forged.jsonl"));
      expect([name, refused.exit === 8, refused.err]).toEqual([
        name,
        true,
        expect.stringMatching(/line \d+/),
      ]);
    }
    expect(await there.getTask("msn-forged")).toBeNull();
  });

  test("leaves out a mission of which the fleet had lost a record", async () => {
    await work("msn-lost");
    await from("export", "--task", "msn-lost", "--out", file("kept.jsonl"));
    const name = "sortie/srt-002";
    const lost = linesOf("kept.jsonl").map((line) => {
      if (line.kind === "task_end") return { ...line, records: line.records - 1, records_lost: 1 };
      return line.name === name ? { kind: "record_lost", name, reason: "the fleet does not have it" } : line;
    });
    writeFileSync(file("lost.jsonl"), sealed(lost));
    const verified = await from("export", "verify", file("lost.jsonl"));
    expect(verified).toMatchObject({ exit: 8 });
    expect(verified.out).toContain("the fleet could not read 1 record of missions");
    const refused = await into("import", file("lost.jsonl"), "--json");
    expect(refused.exit).toBe(8);
    expect(JSON.parse(refused.out)).toMatchObject({ imported: [], incomplete: ["msn-lost"] });
    expect(await there.getTask("msn-lost")).toBeNull();
  });

  test("names a record that the store has lost or holds in another form, in place of its bytes", () => {
    const task = {} as Line;
    const bytes = Buffer.from("a record").toString("base64");
    const newest = new Map([
      ["mission", exportedRecordHash(bytes)],
      ["locks", "0".repeat(64)],
      ["mailbox", "1".repeat(64)],
    ]);
    const records = new Map([
      ["mission", bytes],
      ["locks", bytes],
    ]);
    const lines = [...recordLines(newest, { task, records })].map((line: Line) => [line.kind, line.name]);
    expect(lines).toEqual([
      ["record", "mission"],
      ["record_lost", "locks"],
      ["record_lost", "mailbox"],
    ]);
    const none = [...recordLines(newest, null)].map(({ kind }) => kind);
    expect(none).toEqual(["record_lost", "record_lost", "record_lost"]);
  });

  test("is for operators and custodians, and not for agents, whose messages it would show to each other", async () => {
    await work("msn-secret");
    const exported = async (name: string, ...role: string[]) => {
      const issue = ["access", "issue", "--agent", name, ...role, "--out", file(`${name}.creds`)];
      expect(await from(...issue)).toMatchObject({ exit: 0 });
      const env = { ...callerEnvironment(source), FLEET_NATS_CREDS: file(`${name}.creds`) };
      return callCli(["export", "--task", "msn-secret", "--out", file(`${name}.jsonl`)], { env });
    };
    expect((await exported("worker-9")).exit).toBe(77);
    expect(existsSync(file("worker-9.jsonl"))).toBe(false);
    expect(await exported("cleo", "--role", "custodian")).toMatchObject({ exit: 0, err: "" });
    expect(linesOf("cleo.jsonl").filter(({ kind }) => kind === "record")).not.toEqual([]);
  });

  test("says of a file of an earlier format that it has no records", async () => {
    await work("msn-earlier");
    await from("export", "--task", "msn-earlier", "--out", file("newer.jsonl"));
    const lines = linesOf("newer.jsonl").filter(({ kind }) => kind !== "record");
    writeFileSync(file("earlier.jsonl"), sealed(lines.map((line) => earlier(line))));
    const verified = await from("export", "verify", file("earlier.jsonl"));
    expect(verified).toMatchObject({ exit: 0 });
    expect(verified.out).toContain("Of 1 mission the file has no records");
    const refused = await into("import", file("earlier.jsonl"), "--json");
    expect(refused.exit).toBe(8);
    expect(JSON.parse(refused.out)).toMatchObject({ imported: [], without_records: ["msn-earlier"] });
    expect((await into("import", file("earlier.jsonl"))).out).toContain("export them again");
    expect(await there.getTask("msn-earlier")).toBeNull();
    writeFileSync(file("interrupted.jsonl"), `${JSON.stringify(earlier(lines[0]))}\n`);
    const resumed = await from("export", "--resume", "--out", file("interrupted.jsonl"));
    expect(resumed.exit).toBe(64);
    expect(resumed.err).toContain("format 2");
  });

  test("continues after SIGKILL of the command and of the fleet among the records", async () => {
    const mission = dispatch.mission("msn-large");
    await mission.start({ title: "a large mission" }, PATIENT);
    for (let part = 0; part < 8; part += 1) {
      const sorties = Array.from({ length: 100 }, (_, n) => ({
        title: `part ${part} ${n}`,
        files: [`src/${n}.ts`],
      }));
      await mission.addSorties(sorties, PATIENT);
    }
    await mission.checkpoint(PATIENT);
    await from("export", "--task", "msn-large", "--out", file("large.jsonl"));
    for (const victim of ["command", "fleet"] as const) {
      const origin = async () => (await there.getTask("msn-large"))?.origin;
      const before = (await origin())?.imported_records ?? 0;
      // A fast machine may be at its end before the signal.
      const isFurther = async () => {
        const { imported_records: now = 0, complete = false } = (await origin()) ?? {};
        return now > before || complete;
      };
      const child = spawn(process.execPath, ["services/cli/main.ts", "import", file("large.jsonl")], {
        cwd: projectRoot,
        env: { ...process.env, ...callerEnvironment(target) },
        stdio: "ignore",
      });
      const exited = once(child, "exit");
      await expect.poll(isFurther, { timeout: 60_000, interval: 1 }).toBe(true);
      if (victim === "fleet") await target.kill9();
      child.kill("SIGKILL");
      await exited;
      if (victim === "fleet") await target.start();
    }
    const known = () =>
      there.getTask("msn-large").then(
        (task) => task?.origin?.imported_records ?? 0,
        () => 0,
      );
    await expect.poll(known, { timeout: 60_000 }).toBeGreaterThan(0);
    expect(await into("import", file("large.jsonl"), "--timeout", "30s")).toMatchObject({ exit: 0 });
    const { sorties } = await there.mission("msn-large").sorties({ ...PATIENT, limit: 1_000 });
    expect(sorties).toHaveLength(800);
    expect(await json(into("scrub", "start", "--wait", "--json"))).toMatchObject({ exit: 0, findings: [] });
  });

  test("holds one moment of a mission that agents change during the export", async () => {
    await work("msn-moving");
    const mission = dispatch.mission("msn-moving");
    let isDone = false;
    const writing = (async () => {
      for (let n = 0; !isDone; n += 1) {
        await mission.update({ title: `title ${n}` }, PATIENT);
        await mission.addSorties([{ title: `sortie ${n}` }], PATIENT);
      }
    })();
    for (let n = 0; n < 3; n += 1) {
      const name = `moving-${n}.jsonl`;
      expect(await from("export", "--task", "msn-moving", "--out", file(name))).toMatchObject({
        exit: 0,
        err: "",
      });
      expect(await from("export", "verify", file(name))).toMatchObject({ exit: 0 });
    }
    isDone = true;
    await writing;
    expect(await into("import", file("moving-2.jsonl"))).toMatchObject({ exit: 0, err: "" });
    expect(await json(into("scrub", "start", "--wait", "--json"))).toMatchObject({ exit: 0, findings: [] });
  });
});
