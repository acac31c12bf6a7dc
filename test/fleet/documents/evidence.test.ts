// An auditor who works through EVIDENCE.md: each command of its tables ends with 0 and prints what the row says.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type EvidenceFleet, startEvidenceFleet } from "../../harness/evidence/evidence-fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { runLine, writePrograms } from "./shell.ts";

/** A busy machine takes minutes for everything that the fleet has to show. */
const START_MS = 400_000;

interface Row {
  readonly clause: string;
  readonly mechanism: string;
  readonly command: string;
  readonly shows: readonly string[];
}

const PAGE = readFileSync(join(projectRoot, "shared/integrity/EVIDENCE.md"), "utf8");

const codes = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);

/** The rows of all tables, without their heads. */
const ROWS: readonly Row[] = PAGE.split("\n").flatMap((line) => {
  const [, clause = "", mechanism = "", command = "", shows = "", end] = line.split(/(?<!\\)\|/);
  const [call] = codes(command);
  if (end === undefined || call === undefined) return [];
  return [{ clause: clause.trim(), mechanism: mechanism.trim(), command: call, shows: codes(shows) }];
});

let fleet: EvidenceFleet;
let folder: string;

const run = (command: string) => {
  const path = [join(folder, "bin"), dirname(process.execPath), process.env.PATH].join(":");
  return runLine(command, { cwd: folder, env: { FLEET_HOME: fleet.server.home, PATH: path } });
};

async function done(command: string): Promise<string> {
  const { exit, out, err } = await run(command);
  expect(exit, `${command}\n${out}${err}`).toBe(0);
  return out;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-evidence-"));
  writePrograms(join(folder, "bin"));
  fleet = await startEvidenceFleet();
  // An agent signs in the name of a person.
  await expect(fleet.sign(fleet.client, "auth")).rejects.toMatchObject({ code: "FORBIDDEN" });
  await done("fleet task retain auth --hold case-7 --reason inspection");
  await done("fleet access issue --agent ada --role operator --out ada.creds");
  await done("fleet scrub start --wait");
}, START_MS);
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("the tables have rows for each regulation, and every row names what its command shows", () => {
  for (const clause of [
    "11.10(a)",
    "11.10(k)",
    "11.70",
    "(b) audit",
    "CC6.1",
    "CC7.2",
    "A1.2",
    "PI1",
    "C1.2",
  ])
    expect(
      ROWS.some((row) => row.clause.startsWith(clause)),
      clause,
    ).toBe(true);
  expect(ROWS.filter(({ shows, mechanism }) => shows.length === 0 || mechanism === "")).toEqual([]);
});

test("every command ends with 0 and prints what its row says", { timeout: 300_000 }, async () => {
  // An entry is in the log some seconds after it was written.
  const { client } = fleet;
  await expect.poll(async () => (await client.admin.auditLog()).size, { timeout: 60_000 }).toBeGreaterThan(1);
  const printed = new Map<string, string>();
  const id = (await client.getLatestCheckpoint("auth"))!.metadata.checkpoint_id;
  for (const { command } of ROWS)
    if (!printed.has(command)) printed.set(command, await done(command.replace("$CHECKPOINT", id)));
  const missing = ROWS.flatMap(({ clause, command, shows }) =>
    shows
      .filter((word) => !printed.get(command)!.includes(word))
      .map((word) => `${clause}: ${command}: ${word}`),
  );
  expect(
    missing,
    [...printed].map(([command, out]) => `${command}\n${out.slice(0, 300)}`).join("\n"),
  ).toEqual([]);
});
