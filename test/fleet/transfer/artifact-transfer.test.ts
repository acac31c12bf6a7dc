// Artifacts in export files: their bytes, what is missing, damage, and kills in the middle of an export and of an import.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { fileOf, MIB, newFolder, partsOfSize, sha256 } from "../artifacts/bytes.ts";

const CALLS_MS = 180_000;
const deadlineMs = 30_000;
const LARGE = 2 * MIB + 321;

let server: TestFleet;
let client: FleetClient;
let folder: string;
const hashes: string[] = [];

const environment = () => ({
  FLEET_URL: server.url,
  FLEET_HOME: server.home,
  FLEET_SPOOL_DIR: join(server.home, "spool"),
});
const fleet = (...args: string[]) => callCli([...args, "--timeout", "30s"], { env: environment() });
const file = (name: string): string => join(folder, name);
const linesOf = (name: string): string[] => readFileSync(file(name), "utf8").trimEnd().split("\n");
const kindOf = (line: string): string => JSON.parse(line).kind;

async function report(...args: string[]) {
  const { exit, out, err } = await fleet(...args, "--json");
  expect(err).toBe("");
  return { exit, ...JSON.parse(out) };
}

async function write(task: string, files: readonly string[]): Promise<void> {
  const handle = await client.takeTask(task, { deadlineMs });
  for (const path of files) {
    await handle.attach(path);
    expect(await handle.checkpoint(input({ goal: `with ${path}` }), { deadlineMs })).toMatchObject({
      outcome: "committed",
    });
  }
}

/** What another agent reads of the tasks: contents, and the bytes of the artifacts. */
async function contentsIn(tenant: string): Promise<unknown> {
  const reader = await server.client("reader-1", tenant);
  for (const hash of hashes) await reader.artifacts.verify(hash);
  return Promise.all(
    ["first", "second"].map(async (task) => {
      const { checkpoints } = await reader.getCheckpointHistory(task, { deadlineMs });
      return checkpoints.map(({ metadata, execution_state, artifacts }) => ({
        ...{ id: metadata.checkpoint_id, seq: metadata.seq, execution_state, artifacts },
      }));
    }),
  );
}

beforeAll(async () => {
  folder = newFolder();
  server = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  client = await server.client("writer-1");
  const [large, small, empty] = [
    fileOf(folder, "large.bin", LARGE),
    fileOf(folder, "small.txt", 10),
    fileOf(folder, "empty", 0),
  ];
  hashes.push(...[large, small, empty].map(({ bytes }) => sha256(bytes)));
  await write("first", [large.path, small.path]);
  await write("second", [large.path, empty.path]);
  expect(await fleet("export", "--task", "first", "second", "--out", file("whole.jsonl"))).toMatchObject({
    ...{ exit: 0, err: "" },
  });
}, 180_000);
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe("artifacts of exports and imports", { timeout: CALLS_MS }, () => {
  test("a file has each artifact once, and an import stores it before the versions", async () => {
    const kinds = linesOf("whole.jsonl").map(kindOf);
    expect(kinds.filter((kind) => kind === "artifact")).toHaveLength(3);
    expect(kinds.filter((kind) => kind === "artifact_part")).toHaveLength(4);
    expect(await report("export", "verify", file("whole.jsonl"))).toMatchObject({
      ...{ exit: 0, ok: true, artifacts: 3, artifact_bytes: LARGE + 10, artifacts_lost: 0 },
    });
    expect(await report("import", file("whole.jsonl"), "--tenant", "copy", "--dry-run")).toMatchObject({
      ...{ exit: 0, artifacts: 0, missing_artifacts: [] },
    });
    // The first task of the file has the bytes that the second one references too.
    expect(await report("import", file("whole.jsonl"), "--tenant", "copy", "--task", "second")).toMatchObject(
      { exit: 0, imported: ["second"], artifacts: 2 },
    );
    expect(await report("import", file("whole.jsonl"), "--tenant", "copy")).toMatchObject({
      ...{ exit: 0, imported: ["first"], identical: ["second"], artifacts: 2 },
    });
    expect(await contentsIn("copy")).toEqual(await contentsIn("default"));
    expect(await report("import", file("whole.jsonl"), "--tenant", "copy")).toMatchObject({
      ...{ exit: 0, imported: [], artifacts: 0, versions: 0 },
    });
  });

  test("an export that is cut in the middle of an artifact, or before it, continues to the same file", async () => {
    const whole = readFileSync(file("whole.jsonl"));
    const begin = whole.indexOf('{"kind":"artifact"');
    const part = whole.indexOf('"kind":"artifact_part"', begin);
    const second = whole.indexOf('"kind":"artifact_part"', part + 10);
    const ends = [begin, begin + 5, part - 1, part + 500, second + 20, whole.indexOf("\n", second) + 1];
    for (const end of ends) {
      expect(end).toBeGreaterThan(0);
      writeFileSync(file("cut.jsonl"), whole.subarray(0, end));
      expect(await fleet("export", "--resume", "--out", file("cut.jsonl"))).toMatchObject({
        ...{ exit: 0, err: "" },
      });
      expect([end, readFileSync(file("cut.jsonl")).equals(whole)]).toEqual([end, true]);
    }
  });

  test("an import that is killed and repeated stores what one import stores", async () => {
    const child = spawn(
      process.execPath,
      ["services/cli/main.ts", "import", file("whole.jsonl"), "--tenant", "killed"],
      { cwd: projectRoot, env: { ...process.env, ...environment() }, stdio: "ignore" },
    );
    const exited = once(child, "exit");
    const reader = await server.client("reader-1", "killed");
    const stored = async () => (await reader.artifacts.list({ deadlineMs })).total_bytes;
    await expect.poll(stored, { timeout: 60_000, interval: 1 }).toBeGreaterThan(0);
    child.kill("SIGKILL");
    await exited;
    expect(await report("import", file("whole.jsonl"), "--tenant", "killed")).toMatchObject({ exit: 0 });
    expect(await report("import", file("whole.jsonl"), "--tenant", "once")).toMatchObject({ exit: 0 });
    expect(await contentsIn("killed")).toEqual(await contentsIn("once"));
    for (const task of ["first", "second"]) {
      const of = async (tenant: string) => (await server.client("reader-1", tenant)).getTask(task);
      const [killed, whole] = [await of("killed"), await of("once")];
      expect(killed?.origin).toMatchObject({ complete: true, digest: whole?.origin?.digest });
      expect(killed?.audit_seq).toBe(whole?.audit_seq);
      expect(await reader.verifyAudit(task, { deadlineMs })).toMatchObject({ ok: true });
    }
  });

  test("without the bytes, an import names what the fleet lacks and writes nothing", async () => {
    await fleet("export", "--task", "second", "--no-artifacts", "--out", file("bare.jsonl"));
    expect(linesOf("bare.jsonl").map(kindOf)).not.toContain("artifact");
    const dry = await report("import", file("bare.jsonl"), "--tenant", "bare", "--dry-run");
    expect(dry.missing_artifacts.toSorted()).toEqual([hashes[0]!, hashes[2]!].sort());
    const refused = await fleet("import", file("bare.jsonl"), "--tenant", "bare");
    expect([refused.exit, refused.err]).toEqual([4, expect.stringContaining(hashes[0]!)]);
    expect(await (await server.client("reader-1", "bare")).getTask("second")).toBeNull();
    const other = await server.client("writer-2", "bare");
    for (const name of ["large.bin", "empty"]) await other.artifacts.put(file(name));
    expect(await report("import", file("bare.jsonl"), "--tenant", "bare")).toMatchObject({
      ...{ exit: 0, imported: ["second"], artifacts: 0 },
    });
  });

  test("finds a tampered artifact with the number of its line, and imports nothing of the file", async () => {
    const lines = linesOf("whole.jsonl");
    const at = (kind: string): number => lines.findIndex((line) => kindOf(line) === kind);
    const edited = (kind: string, change: (value: Record<string, unknown>) => void): string[] => {
      const value = JSON.parse(lines[at(kind)]!);
      change(value);
      return lines.with(at(kind), JSON.stringify(value));
    };
    const part = at("artifact_part");
    const swap = ({ bytes }: Record<string, unknown>): string =>
      `${String(bytes).startsWith("A") ? "B" : "A"}${String(bytes).slice(1)}`;
    const cases: Record<string, [number, string[]]> = {
      "other bytes": [
        part + 3,
        edited("artifact_part", (line) => Object.assign(line, { bytes: swap(line) })),
      ],
      "another size": [part, edited("artifact", (line) => Object.assign(line, { size: 5 }))],
      "another hash": [part, edited("artifact", (line) => Object.assign(line, { sha256: "0".repeat(64) }))],
      "a part less": [part + 1, lines.toSpliced(part, 1)],
      "a part twice": [part + 2, lines.toSpliced(part, 0, lines[part]!)],
      "a line in between": [part + 1, lines.toSpliced(part, 0, lines.at(-1)!)],
      "an artifact twice": [part + 4, lines.toSpliced(part + 3, 0, lines[part - 1]!)],
    };
    for (const [name, [line, content]] of Object.entries(cases)) {
      writeFileSync(file("tampered.jsonl"), `${content.join("\n")}\n`);
      const verified = await fleet("export", "verify", file("tampered.jsonl"), "--json");
      expect([name, verified.exit, JSON.parse(verified.out)]).toEqual([
        ...[name, 8, expect.objectContaining({ ok: false, line })],
      ]);
      expect((await fleet("import", file("tampered.jsonl"), "--tenant", "tampered")).exit).toBe(8);
    }
    const reader = await server.client("reader-1", "tampered");
    expect((await reader.artifacts.list({ deadlineMs })).total_bytes).toBe(0);
  });

  test("an artifact that the fleet has damaged is named in its place", async () => {
    const own = fileOf(folder, "damaged.bin", 4_321);
    await write("damaged", [own.path]);
    truncateSync(partsOfSize(server.home, 4_321)[0]!, 100);
    const made = await fleet("export", "--task", "damaged", "--out", file("damaged.jsonl"));
    expect([made.exit, made.err]).toEqual([8, expect.stringContaining("could not read everything")]);
    expect(linesOf("damaged.jsonl").map(kindOf)).toContain("artifact_lost");
    expect(made.out).not.toContain("is whole");
    expect(made.out).toContain(sha256(own.bytes));
    expect(made.out).toContain("artifact put FILE");
    expect(await report("export", "verify", file("damaged.jsonl"))).toMatchObject({
      ...{ exit: 8, ok: true, complete: false, artifacts_lost: 1, lost_artifacts: [sha256(own.bytes)] },
    });
    const refused = await fleet("import", file("damaged.jsonl"), "--tenant", "damage");
    expect([refused.exit, refused.err]).toEqual([4, expect.stringContaining(sha256(own.bytes))]);
    expect(refused.err).toContain("artifact put FILE");
    await client.artifacts.put(own.path);
    const again = await fleet("export", "--task", "damaged", "--out", file("repaired.jsonl"));
    expect([again.exit, again.out]).toEqual([0, expect.stringContaining("is whole")]);
  });
});
